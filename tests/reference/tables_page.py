"""docs/reference/tables.md: the tables in the target and in the metadata DB."""

import re
from collections.abc import Iterator
from types import ModuleType
from typing import Final

from sqlalchemy import BigInteger, Boolean, Float, String, Text

from airflow_provider_dm.engine.downstream import dm_checkpoint, meta_tables
from airflow_provider_dm.engine.downstream.meta_definitions import TABLES
from airflow_provider_dm.engine.meta import tables as metadata_db
from tests.reference.markdown import cell, head, page, table

ABOUT: Final = """\
The tables that keep the state of a task. Read them as you like; change them only by `dmctl` and the operators.
[Concepts](../concepts.md#what-is-kept-where) explains which of them may be lost."""
IN_TARGET: Final = """\
In the schema that the task's `meta-schema` names (`dm_meta`). They commit in the transactions that write the rows. A
*position* is text whose byte order is the order of the log."""
CHECKPOINT: Final = """\
DM's own checkpoint table, written every `checkpoint-flush-interval`, for users and for
[the way back to DM](../coming-from-dm.md#back-to-dm). A subtask reads it only when a task of DM begins here."""
IN_METADATA_DB: Final = """\
In the database of the connection `dm_meta_default`, or of `DM_META_URL`. Times are microseconds since 1970 by the clock
of that database; `version` counts the writes to a row; *document* is JSON."""
TYPES: Final = {BigInteger: "bigint", Boolean: "boolean", Float: "float", Text: "document"}
COLUMN: Final = re.compile(r"^\s*(\w+) (\w+(?:\(\d+\))?)(.*?)(?: COMMENT '(.*)')?,?$")


def tables_page() -> str:
    lines = [*head("Tables", ABOUT), "## In the target", "", IN_TARGET, ""]
    purposes = _purposes(meta_tables)
    for name in purposes:
        lines += [f"### {name}", "", cell(purposes[name]), "", *table(("column", "type", "meaning"), _columns(name))]
    lines += [
        "### {task}_syncer_checkpoint",
        "",
        CHECKPOINT,
        "",
        ", ".join(f"`{name}` {kind.split()[0]}" for name, kind in dm_checkpoint.COLUMNS.items()) + ".",
        "",
    ]
    lines += ["## In the metadata DB", "", IN_METADATA_DB, ""]
    for name, purpose in _purposes(metadata_db).items():
        found = metadata_db.metadata.tables[name].columns
        columns = [f"`{one.name}` {_type(one.type)}{' (key)' if one.primary_key else ''}" for one in found]
        lines += [f"### {name}", "", cell(purpose), "", f"{', '.join(columns)}.", ""]
    return page(lines)


def _purposes(module: ModuleType) -> dict[str, str]:
    """Return table -> purpose, as the module's docstring lists them."""
    listed = dict(re.findall(r"^    (dm_\w+) +(.+)$", module.__doc__ or "", re.MULTILINE))
    known = set(TABLES) if module is meta_tables else set(metadata_db.metadata.tables)
    assert set(listed) == known, set(listed) ^ known
    return {name: f"{purpose[0].upper()}{purpose[1:]}." for name, purpose in listed.items()}


def _columns(name: str) -> Iterator[tuple[str, ...]]:
    definition = re.sub(r"(?<=NOT NULL), (?=\w+ varchar)", ",\n", TABLES[name])
    key = re.search(r"PRIMARY KEY \((.*?)\)", definition)
    in_key = key[1].split(", ") if key else re.findall(r"(\w+) [^,]*PRIMARY KEY", definition)
    for line in definition.split("\n"):
        found = COLUMN.match(line)
        if found and found[1] not in ("PRIMARY", "UNIQUE"):
            marked = f"`{found[1]}`{' (key)' if found[1] in in_key else ''}"
            kind = "position" if found[2] == "varchar(48)" else found[2]
            yield marked, kind, cell((found[4] or "").replace("''", "'"))


def _type(kind: object) -> str:
    if isinstance(kind, Text):
        return "document"
    return f"varchar({kind.length})" if isinstance(kind, String) else TYPES[type(kind)]
