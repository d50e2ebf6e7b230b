"""Records what online DDL tools leave in the binlog of real servers, for the tests beside it.

    PYTHONPATH=.:docker python -m tests.unit.rules.online_ddl.record      # needs apt-get install percona-toolkit

pt-online-schema-change is run as it is. gh-ost is in no package: its statements, in their order, are those of its
source (go/logic/applier.go and migrator.go), sent to the same servers, so the log has them as servers write them.

A record is a text: `# …` who made it; `== name | what was asked for | exit n` begins a run; `table: …` is the real
table before it, as the catalogue has it; then each statement of the log after a line `--`.
"""

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.schema.catalogue import read_tables
from testbed.servers import Flavour, Server, ServerSpec, running_servers
from tests.integration.binlog.reading import session

HERE = Path(__file__).parent
FLAVOURS: tuple[Flavour, ...] = ("mariadb", "mysql")
_SHOWN_ONLY = re.compile(r"\A(?:use `shop`; )?(?:set foreign_key_checks=0; )?|(?: /\* xid=\d+ \*/)?\Z")
"""What SHOW BINLOG EVENTS puts around a statement's text."""

SETUP = """
CREATE DATABASE shop; USE shop;
CREATE TABLE t (
  id int NOT NULL AUTO_INCREMENT PRIMARY KEY, u int, v varchar(20), w timestamp NULL, s char(3) CHARACTER SET latin1,
  KEY w (w));
INSERT INTO t (u, v) VALUES (1, 'a'), (2, 'b'), (3, 'c');
CREATE TABLE types (
  id bigint unsigned NOT NULL, d decimal(10,2) NOT NULL DEFAULT 1.50, e enum('a','b''c') DEFAULT 'a', f set('x','y'),
  g datetime(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), h blob, i json, j year, k bit(5),
  l varbinary(7), m text COLLATE utf8mb4_bin, n int GENERATED ALWAYS AS (id + 1) VIRTUAL, b boolean, o tinyint(4),
  z int(5) unsigned zerofill, PRIMARY KEY (id), UNIQUE KEY dd (d, g), UNIQUE KEY mm (m(10)), KEY ff (f)
) COMMENT='it''s' ROW_FORMAT=DYNAMIC;
INSERT INTO types (id, d) VALUES (1, 2);
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (
  id int PRIMARY KEY, p int, self int, CONSTRAINT to_parent FOREIGN KEY (p) REFERENCES parent (id),
  CONSTRAINT to_self FOREIGN KEY (self) REFERENCES child (id));
INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1, 1, 1);
CREATE TABLE x (id int PRIMARY KEY, a varchar(9)) CHARACTER SET latin1;
INSERT INTO x VALUES (1, 'one');
"""
KILLED = """
package pt_online_schema_change_plugin;
sub new { my ($class, %args) = @_; return bless {%args}, $class }
sub before_copy_rows { kill 'KILL', $$ }
1;
"""
TRIGGERS = "; ".join(f"DROP TRIGGER IF EXISTS shop.pt_osc_shop_t_{what}" for what in ("del", "ins", "upd"))


@dataclass(frozen=True)
class Run:
    """One run of pt-online-schema-change. `killed`: before its first row. `then`: SQL after it."""

    name: str
    table: str
    alter: str
    options: tuple[str, ...] = ()
    killed: bool = False
    then: str = ""


PT_OSC = (
    Run("plain", "t", "ADD COLUMN c int NOT NULL DEFAULT 7, ADD KEY v (v)", then="UPDATE shop.t SET c = 100 + id"),
    Run("a wider column", "t", "MODIFY v varchar(40), ADD UNIQUE KEY u (u)"),
    Run("nothing but a copy", "t", "ENGINE=InnoDB"),
    Run("a dry run", "t", "ADD COLUMN d int", ("--dry-run",)),
    Run("killed", "t", "ADD COLUMN d int", killed=True, then=TRIGGERS),
    Run("its name is taken", "t", "ADD COLUMN d int", then="UPDATE shop.t SET d = 200 + id"),
    Run("old table kept", "t", "ADD COLUMN e int", ("--no-drop-old-table",)),
    Run("both names are taken", "t", "ADD COLUMN f int"),
    Run("CHANGE to another name", "t", "CHANGE c cc int NOT NULL DEFAULT 7", ("--no-check-alter",)),
    Run("RENAME COLUMN", "t", "RENAME COLUMN cc TO ccc", ("--no-check-alter",)),
    Run("a name used again", "t", "DROP COLUMN d, ADD COLUMN d bigint DEFAULT 5", ("--no-check-alter",)),
    Run("refused by the server", "t", "DROP COLUMN nothing"),
    Run("many types", "types", "DROP COLUMN e, ADD COLUMN x bigint"),
    Run("a child", "child", "ADD COLUMN n int", ("--alter-foreign-keys-method=auto", "--no-check-foreign-keys")),
    Run("a parent", "parent", "ADD COLUMN n int", ("--alter-foreign-keys-method=rebuild_constraints",)),
    Run("a charset", "x", "CONVERT TO CHARACTER SET utf8mb4"),
)

_CHANGELOG = """create /* gh-ost */ table `shop`.`_t_ghc` (
			id bigint auto_increment,
			last_update timestamp not null DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
			hint varchar(64) charset ascii not null,
			value varchar(4096) charset ascii not null,
			primary key(id),
			unique key hint_uidx(hint)
		) auto_increment=256
		"""
_SENTRY = """create /* gh-ost */ table `shop`.`_t_del` (
			id int auto_increment primary key
		) engine=InnoDB comment='ghost-cut-over-sentry'
		"""


def _drop(name: str) -> str:
    return f"drop /* gh-ost */ table if exists `shop`.`{name}`"


def _gh_ost_begins(alter: str) -> tuple[str, ...]:
    return (
        "create /* gh-ost */ table `shop`.`_t_gho` like `shop`.`t`",
        f"alter /* gh-ost */ table `shop`.`_t_gho` {alter}",
        _drop("_t_ghc"),
        _CHANGELOG,
    )


_SWAP = "rename /* gh-ost */ table `shop`.`t` to `shop`.`_t_del`, `shop`.`_t_gho` to `shop`.`t`"
_ATOMIC = (_SENTRY, _drop("_t_del"), _SWAP)
_TWO_STEPS = (
    "alter /* gh-ost */ table `shop`.`t` rename `_t_del`",
    "alter /* gh-ost */ table `shop`.`_t_gho` rename `t`",
)
_CLEAN = (_drop("_t_ghc"), _drop("_t_del"))

GH_OST: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("atomic", "add column c int", (*_gh_ost_begins("add column c int"), *_ATOMIC, *_CLEAN)),
    (
        "a second try to cut over",
        "add index u (u)",
        (*_gh_ost_begins("add index u (u)"), _SENTRY, _drop("_t_del"), _SENTRY, _drop("_t_del"), _SWAP, *_CLEAN),
    ),
    ("two steps", "modify v varchar(50)", (*_gh_ost_begins("modify v varchar(50)"), *_TWO_STEPS, *_CLEAN)),
    ("killed", "add column d int", (*_gh_ost_begins("add column d int"), _SENTRY)),
    (
        "begun again",
        "add column d bigint",
        (_drop("_t_gho"), _drop("_t_del"), *_gh_ost_begins("add column d bigint"), *_ATOMIC, _drop("_t_ghc")),
    ),
)


def main() -> None:
    """Write the records of both flavours."""
    for flavour in FLAVOURS:
        with running_servers([ServerSpec("recorded", flavour)]) as (server,):
            version = f"{flavour} {server.version}"
            server.sql("CREATE USER pt@'127.0.0.1' IDENTIFIED BY 'pt'; GRANT ALL ON *.* TO pt@'127.0.0.1'")
            for name, pieces in (("pt_osc", _pt_osc(server)), ("gh_ost", _gh_ost(server))):
                server.sql("DROP DATABASE IF EXISTS shop")
                server.sql(SETUP)
                text = "\n".join([f"# {TOOLS[name]}, {version}", *pieces])
                (HERE / f"{name}_{flavour}.txt").write_text(text + "\n", encoding="utf-8")


TOOLS = {"pt_osc": "pt-online-schema-change 3.2.1", "gh_ost": "gh-ost, the statements of its source"}


def _pt_osc(server: Server) -> Iterator[str]:
    common = ("--no-version-check", "--recursion-method=none", "--chunk-size=2", "--no-check-unique-key-change")
    for run in PT_OSC:
        begun, table = server.log_end(), _table(server, run.table)
        options = [*common, *run.options, *([] if "--dry-run" in run.options else ["--execute"])]
        with tempfile.TemporaryDirectory() as folder:
            if run.killed:
                plugin = Path(folder) / "killed.pm"
                plugin.write_text(KILLED, encoding="utf-8")
                options.append(f"--plugin={plugin}")
            where = f"h={server.host},P={server.port},u=pt,p=pt,D=shop,t={run.table},A=utf8"
            command = ["pt-online-schema-change", "--alter", run.alter, where, *options]
            code = subprocess.run(command, capture_output=True, check=False).returncode
        if run.then:
            server.sql(run.then)
        yield f"\n== {run.name} | {run.table}: {run.alter} | exit {code}"
        yield f"table: {table}"
        yield from _logged(server, begun)
    print(server.flavour, "rows of t in the end:", server.sql("SELECT * FROM shop.t"))


def _gh_ost(server: Server) -> Iterator[str]:
    for name, alter, statements in GH_OST:
        begun, table = server.log_end(), _table(server, "t")
        for statement in statements:
            server.sql(statement, database="shop")
        yield f"\n== {name} | t: {alter} | exit 0"
        yield f"table: {table}"
        yield from _logged(server, begun)


def _table(server: Server, name: str) -> str:
    connection = session(server)
    try:
        (table,) = read_tables(connection, [TableName("shop", name)]).values()
        return json.dumps(table.to_json())
    finally:
        connection.close()


def _logged(server: Server, begun: tuple[str, int]) -> Iterator[str]:
    rows: Sequence[tuple[object, ...]] = server.sql(f"SHOW BINLOG EVENTS IN '{begun[0]}' FROM {begun[1]}")
    for row in rows:
        if row[2] == "Query" and row[5] not in ("BEGIN", "COMMIT"):
            yield f"--\n{_SHOWN_ONLY.sub('', str(row[5]))}"


if __name__ == "__main__":
    main()
