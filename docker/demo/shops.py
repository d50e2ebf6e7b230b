"""The demo's data: what the shards look like and how they are filled.

Four shards, two on each source. `orders_N` has a primary key, `customers_N` a second unique key, `audit_N` no key at
all: the three ways in which a row can be known. Row ids carry their shard's number, so that merged shards do not meet.
`stock_N` is merged with nothing: its columns and keys are changed while it is migrated. All `orders_N` get a column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from testbed.servers import Server

ID_SPAN: Final = 100_000_000
"""Ids of shard N are N * ID_SPAN + 1, 2, …"""

TARGET_SCHEMA: Final = "shop"
ENTITIES: Final = ("orders", "customers", "audit")
"""Tables that are merged over all shards."""
ALTERED: Final = "stock"
"""The table of each shard that is a table of its own in the target, and gets another form meanwhile."""
AGREED: Final = "orders"
"""The merged table whose shards all make the same DDL, those of one source before those of the other."""

_TABLES: Final = {
    "orders": """(
        id BIGINT UNSIGNED NOT NULL,
        customer_id BIGINT UNSIGNED NOT NULL,
        state ENUM('new','paid','sent','returned') NOT NULL,
        amount DECIMAL(12,2) NOT NULL,
        note VARCHAR(200) NULL,
        ordered_at DATETIME(3) NOT NULL,
        changed_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
        PRIMARY KEY (id), KEY by_customer (customer_id)
    ) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin""",
    "customers": """(
        id BIGINT UNSIGNED NOT NULL,
        email VARCHAR(120) NOT NULL,
        name VARCHAR(80) NOT NULL,
        balance DECIMAL(14,4) NOT NULL,
        score DOUBLE NULL,
        active BIT(1) NOT NULL,
        PRIMARY KEY (id), UNIQUE KEY by_email (email)
    ) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin""",
    "audit": """(
        happened_at DATETIME NOT NULL,
        shard INT NOT NULL,
        message VARCHAR(100) NOT NULL
    ) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin""",
    ALTERED: """(
        id INT UNSIGNED NOT NULL,
        name VARCHAR(60) NOT NULL,
        amount INT NOT NULL,
        PRIMARY KEY (id)
    ) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin""",
}

_ROWS: Final = {
    "orders": """SELECT {base} + seq, {base} + 1 + seq % {customers}, 1 + seq % 4, (seq % 100000) / 7,
        IF(seq % 5 = 0, NULL, CONCAT('note “', seq, '” – it''s fine')),
        '2025-01-01 00:00:00.123' + INTERVAL seq SECOND, '2025-06-01 12:00:00.654321'""",
    "customers": """SELECT {base} + seq, CONCAT('c', {base} + seq, '@shop.example'), CONCAT('Zoë ', seq),
        (seq % 9973) / 13, IF(seq % 7 = 0, NULL, seq / 3), seq % 2""",
    "audit": "SELECT '2025-01-01' + INTERVAL seq % 50 SECOND, {shard}, CONCAT('opened ', seq % 40)",
    ALTERED: "SELECT seq, CONCAT('Stück ', seq), seq % 100",
}

_NUMBERS: Final[dict[str, Callable[[int], str]]] = {
    # flavour -> FROM clause that yields `seq` = 1…n, made by the server itself
    "mariadb": lambda n: f"FROM seq_1_to_{n}",
    "mysql": lambda n: (
        "FROM (WITH RECURSIVE numbers (seq) AS "
        f"(SELECT 1 UNION ALL SELECT seq + 1 FROM numbers WHERE seq < {n}) SELECT seq FROM numbers) AS numbered"
    ),
}


@dataclass(frozen=True)
class Shard:
    """Tables `orders_N`, `customers_N`, `audit_N` and `stock_N` in schema `shop_N` on one source."""

    number: int
    source: Server

    @property
    def schema(self) -> str:
        return f"shop_{self.number:02d}"

    @property
    def first_id(self) -> int:
        return self.number * ID_SPAN

    def name(self, entity: str) -> str:
        return f"{entity}_{self.number:02d}"

    def table(self, entity: str) -> str:
        return f"{self.schema}.{self.name(entity)}"


def rows_per_shard(rows: int, shards: int) -> dict[str, int]:
    """Divide `rows` in all: four fifths orders, one fifth customers, a handful of keyless audit rows and of stock."""
    audit = stock = max(1, min(1_000, rows // shards // 20))
    customers = max(10, rows // shards // 5)
    orders = max(10, rows // shards - customers - audit - stock)
    return {"orders": orders, "customers": customers, "audit": audit, ALTERED: stock}


def fill(shard: Shard, counts: dict[str, int]) -> int:
    """Create and fill one shard's tables; returns the number of rows."""
    connection = shard.source.connect(autocommit=True)
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {shard.schema}")
            cursor.execute(f"CREATE DATABASE {shard.schema}")
            cursor.execute(f"USE {shard.schema}")  # where MariaDB's seq_1_to_n lives
            cursor.execute("SET SESSION time_zone = '+00:00'")
            if shard.source.flavour == "mysql":
                cursor.execute(f"SET SESSION cte_max_recursion_depth = {max(counts.values()) + 1}")
            for entity, definition in _TABLES.items():
                cursor.execute(f"CREATE TABLE {shard.table(entity)} {definition}")
                select = _ROWS[entity].format(base=shard.first_id, shard=shard.number, customers=counts["customers"])
                numbers = _NUMBERS[shard.source.flavour](counts[entity])
                cursor.execute(f"INSERT INTO {shard.table(entity)} {select} {numbers}")
    finally:
        connection.close()
    return sum(counts.values())


def begin_new_binlog(source: Server) -> None:
    """Leave the initial rows in an older binlog file: the relay need not pull them, as on a server that lives long."""
    connection = source.connect(autocommit=True)
    try:
        with connection.cursor() as cursor:
            cursor.execute("FLUSH BINARY LOGS")
    finally:
        connection.close()
