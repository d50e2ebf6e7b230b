"""Random DDL about the tables that a tracker has: most of it a server takes, some it refuses, which is as well.

Everything comes from one seed, so a run can be repeated. Names are few and columns alike, so that keys meet, names are
taken and columns are in several keys.
"""

import random
from collections.abc import Callable
from typing import Final

from airflow_provider_dm.engine.ddl.server import Server
from airflow_provider_dm.engine.ddl.statements import CheckConstraint, ForeignKey, KeyDefinition
from airflow_provider_dm.engine.ddl.tracker import Tracker
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote

TABLES: Final = ("t", "u", "v", "w", "T2")
COLUMNS: Final = ("a", "b", "c", "d", "e", "f", "g", "h", "Ä", "x y", "select", "id")
KEYS: Final = ("k", "l", "m", "a", "b_2")
CHARSETS: Final = ("utf8mb4", "utf8mb3", "utf8", "latin1", "ascii", "binary", "ucs2", "gbk", "utf16", "cp1251")
COLLATIONS: Final = (
    "utf8mb4_bin", "utf8mb4_unicode_ci", "latin1_bin", "latin1_general_cs", "utf8mb3_bin", "utf8_unicode_ci", "binary",
    "ucs2_bin", "utf8mb4_general_ci",
)  # fmt: skip
NUMBERS: Final = (
    "tinyint", "tinyint(1)", "bool", "smallint", "mediumint", "int", "int(5)", "integer(11)", "bigint", "bigint(20)",
    "decimal", "decimal(5)", "numeric(12,4)", "float", "float(7,3)", "float(30)", "double", "double(9,2)", "real",
    "int1", "int8",
)  # fmt: skip
MOMENTS: Final = (
    "date", "time", "time(3)", "datetime", "datetime(6)", "datetime(0)", "timestamp", "timestamp(2)", "year", "year(4)",
)  # fmt: skip
TEXTS: Final = (
    "char", "char(5)", "varchar(7)", "varchar(191)", "varchar(255)", "varchar(700)", "varchar(1000)", "tinytext",
    "text", "mediumtext", "longtext", "text(10)", "text(64)", "text(300)", "text(16384)", "text(70000)", "long varchar",
    "varchar(16000)", "varchar(20000)",
)  # fmt: skip
MEMBERS: Final = ("enum('a','bcd','x  ')", "set('a','bc')", "enum('it''s','b\\\\c','')", "enum('é','ü')")
NATIONAL: Final = ("nchar(3)", "nvarchar(4)", "national varchar(20)")
BYTES: Final = (
    "binary", "binary(5)", "varbinary(9)", "varbinary(3000)", "tinyblob", "blob", "blob(100)", "blob(300)",
    "mediumblob", "longblob", "char(4) byte",
)  # fmt: skip
OTHERS: Final = ("bit", "bit(9)", "json", "point", "geometry", "geometrycollection")
OF_MARIADB: Final = ("inet6", "uuid", "inet4", "text compressed", "json", "varchar(200) compressed")
OF_MYSQL: Final = ("vector(3)", "json", "point srid 4326")
OPTIONS: Final = (
    "comment = 'x'", "comment ''", "row_format = dynamic", "auto_increment = 7", "engine = innodb", "engine = myisam",
    "stats_persistent = 1", "row_format = default",
)  # fmt: skip


class RandomDdl:
    """Statements, one after the other."""

    def __init__(self, seed: float, upstream: Server, schema: str, *, foreign_keys: bool) -> None:
        self.foreign_keys = foreign_keys
        self.random = random.Random(seed)
        self.upstream = upstream
        self.schema = schema

    def statement(self, tracker: Tracker) -> str:
        """Another statement for these tables."""
        self.tracker = tracker
        self.kinds = {
            column.name: column.type.name for name in tracker.names() for column in tracker.definition(name).columns
        }
        tables = sorted(name for name in tracker.names() if name.schema == self.schema)
        if len(tables) < 2:
            return self.create()
        return self.pick(
            (1.0, self.create),
            (0.4, lambda: f"CREATE TABLE {self.perhaps('IF NOT EXISTS', 0.3)} {self.new_table()} LIKE {self.table()}"),
            (0.4, lambda: f"DROP TABLE {self.perhaps('IF EXISTS', 0.5)} {self.table()}"),
            (0.5, self.rename),
            (0.1, lambda: f"TRUNCATE TABLE {self.table()}"),
            (0.7, self.create_index),
            (0.3, self.drop_index),
            (0.2, lambda: f"ALTER DATABASE {quote(self.schema)} {self.charset_option()}"),
            (9.0, self.alter),
        )

    # Chance

    def pick(self, *choices: tuple[float, Callable[[], str]]) -> str:
        (chosen,) = self.random.choices([one for _, one in choices], [weight for weight, _ in choices])
        return chosen()

    def perhaps(self, text: str, chance: float) -> str:
        return text if self.random.random() < chance else ""

    def any(self, *choices: str) -> str:
        return self.random.choice(choices)

    def some(self, choices: list[str], most: int) -> list[str]:
        return self.random.sample(choices, min(len(choices), self.random.randint(1, most)))

    # Tables

    def table(self) -> str:
        return quote(self.random.choice(sorted(self.tracker.names())).table)

    def new_table(self) -> str:
        there = {name.table for name in self.tracker.names()}
        free = [name for name in TABLES if name not in there or self.random.random() < 0.1]
        return quote(self.any(*(free or TABLES)))

    def create(self) -> str:
        names = self.random.sample(COLUMNS, self.random.randint(1, 6))
        self.numbers = names
        elements = [self.column(name, names) for name in names]
        elements += [self.constraint(names) for _ in range(self.random.choice((0, 0, 1, 1, 2, 3)))]
        replaced = self.upstream.mariadb and self.random.random() < 0.3
        head = "CREATE OR REPLACE TABLE" if replaced else f"CREATE TABLE {self.perhaps('IF NOT EXISTS', 0.1)}"
        options = " ".join(self.some([self.charset_option(), *OPTIONS], 2)) if self.random.random() < 0.6 else ""
        partitions = self.perhaps("PARTITION BY KEY () PARTITIONS 2", 0.03)
        return f"{head} {self.new_table()} ({', '.join(elements)}) {options} {partitions}"

    def rename(self) -> str:
        if self.random.random() < 0.4:
            one, other = self.table(), self.table()
            return f"RENAME TABLE {one} TO `_tmp`, {other} TO {one}, `_tmp` TO {other}"
        return f"RENAME TABLE {self.table()} TO {self.new_table()}"

    def charset_option(self) -> str:
        charset, collation = self.any(*CHARSETS), self.any(*COLLATIONS)
        return self.any(
            f"CHARACTER SET {charset}",
            f"DEFAULT CHARSET = {charset}",
            f"COLLATE {collation}",
            f"CHARSET {collation.split('_')[0]} COLLATE {collation}",
            *(["DEFAULT CHARACTER SET DEFAULT"] if self.upstream.mariadb and self.random.random() < 0.1 else []),
        )

    # Columns

    def column(self, name: str, others: list[str]) -> str:
        if self.random.random() < 0.02:
            return f"{quote(name)} SERIAL"
        kind = self.pick(
            (5, lambda: self.any(*NUMBERS) + self.perhaps(" unsigned", 0.3) + self.perhaps(" zerofill", 0.05)),
            (2, lambda: self.any(*MOMENTS)),
            (5, lambda: self.any(*TEXTS) + self.text_attributes()),
            (1, lambda: self.any(*MEMBERS) + self.text_attributes()),
            (0.3, lambda: self.any(*NATIONAL)),
            (1.5, lambda: self.any(*BYTES)),
            (0.6, lambda: self.any(*OTHERS)),
            (0.6, lambda: self.any(*(OF_MARIADB if self.upstream.mariadb else OF_MYSQL))),
        )
        self.kinds[name] = kind
        words = [quote(name), kind]
        if self.random.random() < 0.06 and others:
            how = self.any("VIRTUAL", "STORED", "")
            return " ".join([*words, f"AS ({quote(self.any(*others))} + 1) {how}", self.perhaps("UNIQUE", 0.2)])
        words.append(self.any("", "", "NULL", "NOT NULL"))
        words.append(self.perhaps(self.default(kind), 0.3))
        words.append(self.perhaps("ON UPDATE CURRENT_TIMESTAMP", 0.3) if kind in ("datetime", "timestamp") else "")
        words.append(self.perhaps("AUTO_INCREMENT", 0.05) if "int" in kind else "")
        words.append(self.any("UNIQUE", "PRIMARY KEY", "UNIQUE KEY") if self.random.random() < 0.08 else "")
        words.append(self.perhaps("COMMENT 'it''s'", 0.1))
        words.append(self.perhaps("INVISIBLE", 0.04))
        words.append(self.perhaps(f"CHECK ({quote(name)} <> 3)", 0.04))
        if self.foreign_keys and self.random.random() < 0.05:
            words.append(f"REFERENCES {self.table_or('t')} ({quote(self.any(*COLUMNS))})")
        return " ".join(word for word in words if word)

    def table_or(self, name: str) -> str:
        return self.table() if self.tracker.names() else quote(name)

    def text_attributes(self) -> str:
        collation = self.any(*COLLATIONS)
        return self.any(
            "", "", "", "",
            f" CHARACTER SET {self.any(*CHARSETS)}",
            f" COLLATE {collation}",
            f" CHARSET {collation.split('_')[0]} COLLATE {collation}",
            " BINARY",
            f" CHARACTER SET {self.any(*CHARSETS)} BINARY",
            self.any(" ASCII", " UNICODE", ""),
        )  # fmt: skip

    def default(self, kind: str) -> str:
        if "timestamp" in kind or "datetime" in kind:
            fraction = kind[kind.find("(") :] if "(" in kind else ""
            return self.any(f"DEFAULT CURRENT_TIMESTAMP{fraction}", "DEFAULT NULL", "DEFAULT '2020-01-02 03:04:05'")
        if any(word in kind for word in ("int", "dec", "num", "float", "double", "real", "bool")):
            return self.any("DEFAULT 0", "DEFAULT '5'", "DEFAULT NULL", "DEFAULT 1", "DEFAULT (1 + 1)")
        if "enum" in kind or "set(" in kind:
            return self.any("DEFAULT 'a'", "DEFAULT NULL")
        if "date" in kind:
            return "DEFAULT '2020-01-02'"
        if not self.upstream.mariadb and any(
            word in kind for word in ("text", "blob", "json", "geom", "point", "long")
        ):
            return self.any("DEFAULT NULL", "DEFAULT ('y')", self.perhaps("DEFAULT ''", 0.1))
        return self.any("DEFAULT ''", "DEFAULT 'x'", "DEFAULT NULL", "DEFAULT ('y')")

    # Keys and constraints

    def parts(self, names: list[str]) -> str:
        found = []
        for name in self.some(names, 3):
            kind = self.kinds.get(name, "")
            chance = 0.9 if "text" in kind or "blob" in kind else 0.35 if "char" in kind or "binary" in kind else 0.02
            prefix = (
                f"({self.random.choice((3, 5, 7, 10, 63, 100, 191, 255))})" if self.random.random() < chance else ""
            )
            spelled = name.upper() if self.random.random() < 0.1 else name
            found.append(f"{quote(spelled)}{prefix}{self.perhaps(' DESC', 0.05)}")
        return ", ".join(found)

    def key_name(self) -> str:
        return self.perhaps(quote(self.any(*KEYS)), 0.4)

    def constraint(self, names: list[str]) -> str:
        named = self.perhaps(f"CONSTRAINT {quote(self.any('c1', 'c2', 'c3'))}", 0.4)
        if_not_exists = self.perhaps("IF NOT EXISTS", 0.3) if self.upstream.mariadb and not named else ""
        using = self.any("", "", "", "", "USING BTREE", "USING HASH")
        return self.pick(
            (3, lambda: f"KEY {if_not_exists} {self.key_name()} ({self.parts(names)})"),
            (3, lambda: f"{named} UNIQUE KEY {if_not_exists} {self.key_name()} ({self.parts(names)}) {using}"),
            (2, lambda: f"{named} PRIMARY KEY ({self.parts(names)})"),
            (0.2, lambda: f"FULLTEXT {self.key_name()} ({quote(self.any(*names))})"),
            (0.2, lambda: f"SPATIAL KEY {self.key_name()} ({quote(self.any(*names))})"),
            (0.8, lambda: f"{named} CHECK ({quote(self.any(*names))} <> 7)"),
            (
                1.5 * self.foreign_keys,
                lambda: f"{named} FOREIGN KEY {self.key_name()} ({quote(self.any(*names))}) {self.reference()}",
            ),
            (0.2, lambda: f"UNIQUE KEY {self.key_name()} (({quote(self.any(*names))} + 1))"),
        )

    def reference(self) -> str:
        table = self.random.choice(sorted(self.tracker.names()) or [TableName(self.schema, "t")])
        names = self.names_of(table)
        action = self.any(
            "", "", "ON DELETE CASCADE", "ON UPDATE SET NULL", "ON DELETE RESTRICT", "ON DELETE NO ACTION"
        )
        return f"REFERENCES {quote(table.table)} ({quote(self.any(*names))}) {action}"

    def create_index(self) -> str:
        name = self.random.choice(sorted(self.tracker.names()))
        replaced = self.upstream.mariadb and self.random.random() < 0.3
        head = "CREATE OR REPLACE" if replaced else "CREATE"
        condition = self.perhaps("IF NOT EXISTS", 0.2) if self.upstream.mariadb and not replaced else ""
        kind = self.any("", "", "UNIQUE")
        return (
            f"{head} {kind} INDEX {condition} {quote(self.any(*KEYS))} ON {quote(name.table)} "
            f"({self.parts(self.names_of(name))})"
        )

    def drop_index(self) -> str:
        name = self.random.choice(sorted(self.tracker.names()))
        condition = self.perhaps("IF EXISTS", 0.3) if self.upstream.mariadb else ""
        return f"DROP INDEX {condition} {quote(self.existing(name, KeyDefinition) or 'k')} ON {quote(name.table)}"

    # ALTER TABLE

    def names_of(self, name: TableName) -> list[str]:
        if name not in self.tracker.names():
            return ["a"]
        return [column.name for column in self.tracker.definition(name).columns]

    def existing(self, name: TableName, *kinds: type) -> str | None:
        found = [
            one.name if isinstance(one, KeyDefinition) else one.constraint
            for one in self.tracker.definition(name).constraints
            if isinstance(one, kinds)
        ]
        return self.random.choice(found) if found else None

    def alter(self) -> str:
        self.name = self.random.choice(sorted(self.tracker.names()))
        self.names = self.names_of(self.name)
        specs = [self.spec() for _ in range(self.random.choice((1, 1, 1, 2, 2, 3, 4)))]
        if any("CONVERT" in spec for spec in specs):  # MySQL 9.7 dies of CONVERT TO with a new BINARY column
            specs = [spec for spec in specs if " BINARY" not in spec]
        condition = self.perhaps("IF EXISTS", 0.05) if self.upstream.mariadb else ""
        return f"ALTER TABLE {condition} {quote(self.name.table)} {', '.join(specs)}"

    def old(self) -> str:
        name = self.any(*self.names)
        return quote(name.upper() if self.random.random() < 0.1 else name)

    def place(self) -> str:
        return self.any("", "", "FIRST", f"AFTER {self.old()}", f"AFTER {self.old()}", f"AFTER {self.old()}")

    def spec(self) -> str:
        mariadb = self.upstream.mariadb
        key = quote(self.existing(self.name, KeyDefinition) or "k")
        check = quote(self.existing(self.name, CheckConstraint) or "k")
        foreign_key = quote(self.existing(self.name, ForeignKey) or "f")
        constraint = quote(self.existing(self.name, ForeignKey, CheckConstraint, KeyDefinition) or "f")
        to = self.any("utf8mb4 COLLATE utf8mb4_bin", "latin1 COLLATE latin1_bin", *CHARSETS, *CHARSETS)
        if_exists = self.perhaps("IF EXISTS", 0.3) if mariadb else ""
        if_not_exists = self.perhaps("IF NOT EXISTS", 0.3) if mariadb else ""
        return self.pick(
            (5, lambda: f"ADD COLUMN {if_not_exists} {self.new_column()} {self.place()}"),
            (0.5, lambda: f"ADD ({self.new_column()}, {self.new_column()})"),
            (3, lambda: f"DROP COLUMN {if_exists} {self.old()}"),
            (3, self.modify),
            (2, lambda: f"CHANGE {if_exists} {self.old()} {self.new_column()} {self.place()}"),
            (1.5, lambda: f"RENAME COLUMN {if_exists} {self.old()} TO {quote(self.any(*COLUMNS))}"),
            (1, lambda: f"ALTER COLUMN {if_exists} {self.old()} {self.any('SET DEFAULT 1', 'DROP DEFAULT')}"),
            (0.3, lambda: f"ALTER COLUMN {self.old()} SET DEFAULT NULL"),
            (0.3, lambda: f"ALTER COLUMN {self.old()} SET {self.any('INVISIBLE', 'VISIBLE')}"),
            (3, lambda: f"ADD {self.constraint(self.names)}"),
            (1, lambda: f"DROP KEY {if_exists} {key}"),
            (0.4, lambda: "DROP PRIMARY KEY"),
            (0.4, lambda: f"DROP PRIMARY KEY, ADD PRIMARY KEY ({self.parts(self.names)})"),
            (0.6, lambda: f"RENAME KEY {if_exists} {key} TO {quote(self.any(*KEYS))}"),
            (0.4, lambda: f"DROP FOREIGN KEY {if_exists} {foreign_key}"),
            (0.5, lambda: f"DROP CONSTRAINT {if_exists} {constraint}"),
            (0.3, lambda: f"ALTER INDEX {key} {'IGNORED' if mariadb else 'INVISIBLE'}"),
            (0.2, lambda: f"ALTER CHECK {check} NOT ENFORCED"),
            (1.1, lambda: f"CONVERT TO {self.any('CHARACTER SET', 'CHARSET')} {to}"),
            (0.8, self.charset_option),
            (0.4, lambda: self.any(*OPTIONS)),
            (0.2, lambda: f"RENAME TO {self.new_table()}"),
            (0.1, lambda: self.any("FORCE", "ENABLE KEYS", "ALGORITHM = COPY")),
        )  # fmt: skip

    def new_column(self) -> str:
        there = {name.lower() for name in self.names}
        free = [name for name in COLUMNS if name.lower() not in there or self.random.random() < 0.1]
        return self.column(self.any(*(free or COLUMNS)), self.names)

    def modify(self) -> str:
        name = self.any(*self.names)
        if_exists = self.perhaps("IF EXISTS", 0.3) if self.upstream.mariadb else ""
        return f"MODIFY COLUMN {if_exists} {self.column(name, self.names)} {self.place()}"


def settings(chance: random.Random, upstream: Server) -> dict[str, object]:
    """Variables of a session that change what statements mean."""
    strict = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION"
    found: dict[str, object] = {
        "sql_mode": chance.choice((strict, strict, "")),
        "explicit_defaults_for_timestamp": chance.choice((0, 1, 1)),
    }
    if not upstream.mariadb and chance.random() < 0.3:
        found["default_collation_for_utf8mb4"] = "utf8mb4_general_ci"
    return found
