"""Definitions resolved as a server does it: every column with its charset and collation, every key with its name.

    CREATE TABLE t (id SERIAL, name VARCHAR(9), KEY (name)) CHARSET latin1
    ─▶ id bigint unsigned NOT NULL, name varchar(9) latin1 latin1_swedish_ci NULL, UNIQUE KEY id (id),
       KEY name (name); ENGINE=InnoDB, CHARSET=latin1, COLLATE=latin1_swedish_ci

Columns (`resolved_columns`) are resolved clause by clause; the table as a whole is `settled` at the end of CREATE TABLE
and of ALTER TABLE, as in servers. Settling a settled table returns the same table. The next AUTO_INCREMENT and the
storage of a column are left out.

In CREATE TABLE inline keys precede the other keys, whatever their order in the text. The order only affects generated
names, of keys that begin with the same column.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.collations import Collation, collation_named, default_collation
from airflow_provider_dm.engine.ddl.column_types import LARGE, resolved_type
from airflow_provider_dm.engine.ddl.constraints import named_checks, named_foreign_keys
from airflow_provider_dm.engine.ddl.errors import CannotTrack
from airflow_provider_dm.engine.ddl.expressions import without_mode
from airflow_provider_dm.engine.ddl.keys import by_name, settled_keys
from airflow_provider_dm.engine.ddl.server import Server, SessionDefaults
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.schema.strings import LATIN1

_ENGINES: Final = {"innodb": "InnoDB", "myisam": "MyISAM", "aria": "Aria", "memory": "MEMORY", "heap": "MEMORY"}
DEFAULT_ENGINE: Final = "InnoDB"
_NOT_KEPT: Final = frozenset({"AUTO_INCREMENT", "START TRANSACTION", "CHARSET", "COLLATE", "TYPE"})
_COLUMN_OPTIONS: Final = frozenset({"COMPRESSED", "SRID"})
_ZERO_TIMESTAMP: Final = "'0000-00-00 00:00:00'"
_UNICODE: Final = frozenset({"utf8mb4", "utf16", "utf16le", "utf32", "binary"})
_UNICODE_OF_TWO_BYTES: Final = frozenset({"utf8mb3", "ucs2"})
_WITHOUT_LITERALS: Final = LARGE | {"vector"}
"""Types that cannot have a literal as default in MySQL."""
_WITH_FOREIGN_KEYS: Final = frozenset({"innodb", "ndb", "ndbcluster"})
"""MySQL evaluates inline REFERENCES from this release on; MariaDB always does."""


@dataclass(frozen=True)
class Context:
    """The context in which a definition is resolved. `schema`: the default collation of the schema; None: unknown."""

    server: Server
    session: SessionDefaults
    name: TableName
    schema: Collation | None


# Options


def table_collation(context: Context, options: ddl.Options, current: Collation | None) -> Collation:
    """Return a table's default collation. `current`: the default if the options name none. Raises CannotTrack."""
    given = {name: value.lower() for name, value in options}
    charset, name = given.get("CHARSET"), given.get("COLLATE")
    if "default" in (charset, name):
        raise CannotTrack("CHARACTER SET DEFAULT means the default of the session's schema or of the server")
    collation = current if charset is None else default_collation(context.server, charset, _session_collations(context))
    if name is not None:
        collation = collation_named(context.server, name, None if collation is None else collation.charset)
    if collation is None:
        raise CannotTrack(f"the default collation of the schema {context.name.schema} is not known")
    return collation


def kept_options(options: ddl.Options, collation: Collation) -> ddl.Options:
    """Return the options in canonical order, the last of each name, without those that have no effect."""
    found = {"ENGINE": DEFAULT_ENGINE}
    for name, value in options:
        name = "ENGINE" if name == "TYPE" else name
        found[name] = _ENGINES.get(value.lower(), value) if name == "ENGINE" else value
    kept = {name: value for name, value in found.items() if name not in _NOT_KEPT and not _has_no_effect(name, value)}
    engine = {"ENGINE": kept.pop("ENGINE")}
    charset = {"CHARSET": collation.charset, "COLLATE": collation.name}
    return (*engine.items(), *charset.items(), *sorted(kept.items()))


def keeps_foreign_keys(table: ddl.TableDefinition) -> bool:
    """Return True if the table's engine has foreign keys; other engines keep only the index of a foreign key."""
    return dict(table.options).get("ENGINE", DEFAULT_ENGINE).lower() in _WITH_FOREIGN_KEYS


def _has_no_effect(name: str, value: str) -> bool:
    return (name == "COMMENT" and not value) or (name != "COMMENT" and value.upper() == "DEFAULT")


def _session_collations(context: Context) -> dict[str, str]:
    return dict(context.session.default_collations)


# Columns


def resolved_columns(
    context: Context, columns: Sequence[ddl.ColumnDefinition], collation: Collation
) -> tuple[tuple[ddl.ColumnDefinition, tuple[ddl.Constraint, ...]], ...]:
    """Return each column resolved, with its inline keys and constraints. Raises CannotTrack."""
    columns = _with_timestamp_nulls(context, columns)
    return tuple(_column(context, column, collation) for column in columns)


def _column(
    context: Context, column: ddl.ColumnDefinition, collation: Collation
) -> tuple[ddl.ColumnDefinition, tuple[ddl.Constraint, ...]]:
    server, mode = context.server, context.session.sql_mode
    checks = tuple(replace(check, expression=without_mode(check.expression, mode)) for check in column.checks)
    if column.type.name == "json" and server.mariadb and not checks:
        checks = (ddl.CheckConstraint(f"(json_valid({quote(column.name)}))"),)
    constraints: list[ddl.Constraint] = []
    if column.key is not None:
        constraints.append(ddl.KeyDefinition(column.key, (ddl.KeyPart(column.name),)))
    if column.references is not None and server.can.inline_references:
        constraints.append(ddl.ForeignKey((column.name,), column.references))
    if server.mariadb:
        checks = tuple(ddl.CheckConstraint(check.expression) for check in checks)
    else:
        constraints += checks
        checks = ()
    kind = resolved_type(server, column.type, collation, _session_collations(context))
    if not context.session.strict and any(not _fits(kind, member) for member in kind.arguments):
        raise CannotTrack(f"{kind.charset} may lack characters of the members of {kind.name} {kind.arguments}")
    resolved = replace(
        column,
        type=kind,
        nullable=not (column.nullable is False or column.auto_increment),
        default=_default(server, column, mode),
        on_update=None if column.on_update is None else without_mode(column.on_update, mode),
        generated=None if column.generated is None else without_mode(column.generated, mode),
        key=None,
        references=None,
        checks=checks,
        comment=column.comment or None,
        options=tuple((name, value) for name, value in column.options if name in _COLUMN_OPTIONS),
    )
    return resolved, tuple(constraints)


def _fits(kind: ddl.ColumnType, member: str) -> bool:
    """Return True if a charset certainly has all characters of a member; a missing one would become a question mark."""
    if member.isascii() or kind.charset in _UNICODE:
        return True
    if kind.charset in _UNICODE_OF_TWO_BYTES:
        return max(member) <= "\uffff"
    return kind.charset == "latin1" and set(member) <= set(LATIN1)


def _default(server: Server, column: ddl.ColumnDefinition, sql_mode: int) -> ddl.Code | None:
    """Return the default that the server stores; None also for NULL."""
    code = column.default
    if code is None or code.upper() == "NULL":
        return None
    literal = not code.startswith("(")
    if literal and not server.mariadb and column.type.name in _WITHOUT_LITERALS:
        return None  # dropped with a warning by a session that is not strict
    return without_mode(code, sql_mode)


def _with_timestamp_nulls(context: Context, columns: Sequence[ddl.ColumnDefinition]) -> list[ddl.ColumnDefinition]:
    """Make TIMESTAMP columns NOT NULL, if the session has explicit_defaults_for_timestamp=OFF. Raises CannotTrack."""
    explicit = context.session.explicit_timestamp_defaults
    found: list[ddl.ColumnDefinition] = []
    for column in columns:
        if column.type.name == "timestamp" and not explicit and not (column.generated and context.server.mariadb):
            if explicit is None and column.nullable is None and column.key is not ddl.KeyKind.PRIMARY:
                raise CannotTrack(
                    f"the TIMESTAMP {column.name} has neither NULL nor NOT NULL, and the session's "
                    "explicit_defaults_for_timestamp is not in the log"
                )
            if explicit is False and column.nullable is not True:
                column = replace(column, nullable=False)
        found.append(column)
    return found


def with_timestamp_defaults(
    context: Context,
    columns: Sequence[ddl.ColumnDefinition],
    new: Collection[ddl.ColumnDefinition],
    filled: Collection[ddl.ColumnDefinition] = (),
) -> tuple[ddl.ColumnDefinition, ...]:
    """Add the implicit defaults of TIMESTAMP columns, if the session has explicit_defaults_for_timestamp=OFF.

    It is the current time for the first TIMESTAMP of the whole table, and zero for others. `new`: the columns that the
    statement defines; `filled`: those of them whose default existing rows may get. Raises CannotTrack.
    """
    explicit = context.session.explicit_timestamp_defaults
    stamps = [column for column in columns if column.type.name == "timestamp"]
    bare = [column for column in stamps if _is_bare(column) and any(column is one for one in new)]
    if explicit is None and any(column is stamps[0] and column in filled for column in bare):
        raise CannotTrack(
            f"the TIMESTAMP {stamps[0].name} has no default, and the session's explicit_defaults_for_timestamp is not "
            "in the log"
        )
    if explicit is not False:
        return tuple(columns)
    return tuple(
        _implicit_timestamp(column, first=column is stamps[0]) if any(column is one for one in bare) else column
        for column in columns
    )


def _is_bare(column: ddl.ColumnDefinition) -> bool:
    return not (column.nullable or column.default or column.on_update or column.generated)


def _implicit_timestamp(column: ddl.ColumnDefinition, *, first: bool) -> ddl.ColumnDefinition:
    if not first:
        return replace(column, default=_ZERO_TIMESTAMP)
    now = f"CURRENT_TIMESTAMP({column.type.arguments[0]})" if column.type.arguments else "CURRENT_TIMESTAMP"
    return replace(column, default=now, on_update=now)


# Tables


def created(context: Context, given: ddl.TableDefinition, *, shown: bool = False) -> ddl.TableDefinition:
    """Return the table that a CREATE TABLE creates. `shown`: the text is of SHOW CREATE TABLE, which lists all keys.

    Raises CannotTrack.
    """
    collation = table_collation(context, given.options, context.schema)
    resolved = resolved_columns(context, given.columns, collation)
    columns = tuple(column for column, _ in resolved)
    columns = with_timestamp_defaults(context, columns, columns)
    constraints = [one for _, inline in resolved for one in inline]
    constraints += [resolved_constraint(context, constraint) for constraint in given.constraints]
    options = kept_options(given.options, collation)
    old = tuple(constraint for constraint in constraints if isinstance(constraint, ddl.ForeignKey)) if shown else ()
    new = [constraint for constraint in constraints if constraint not in old]
    return settled(context, ddl.TableDefinition(columns, old, options, given.partitioning), new, shown=shown)


def settled(
    context: Context, table: ddl.TableDefinition, new: Sequence[ddl.Constraint], *, shown: bool = False
) -> ddl.TableDefinition:
    """Return the table with additional constraints, named and sorted. Its columns and options are already resolved.

    `new`: in the order of the text; `shown`: the text is of SHOW CREATE TABLE. Raises CannotTrack.
    """
    server, engine = context.server, dict(table.options).get("ENGINE", DEFAULT_ENGINE)
    primary = {
        str(part.column).lower()
        for constraint in (*table.constraints, *new)
        if isinstance(constraint, ddl.KeyDefinition) and constraint.kind is ddl.KeyKind.PRIMARY
        for part in constraint.parts
    }
    columns = tuple(
        replace(column, nullable=False) if column.name.lower() in primary else column for column in table.columns
    )
    old_keys = [constraint for constraint in table.constraints if isinstance(constraint, ddl.KeyDefinition)]
    old_foreign_keys = [constraint for constraint in table.constraints if isinstance(constraint, ddl.ForeignKey)]
    new_foreign_keys = [key for key in new if isinstance(key, ddl.ForeignKey)]
    keys = settled_keys(
        server,
        by_name(columns),
        old_keys,
        [one for one in new if isinstance(one, ddl.KeyDefinition | ddl.ForeignKey)],
        engine=engine,
        foreign_keys=old_foreign_keys,
        shown=shown,
    )
    if not keeps_foreign_keys(table):
        old_foreign_keys, new_foreign_keys = [], []
    foreign_keys = named_foreign_keys(server, context.name, old_foreign_keys, new_foreign_keys)
    checks = named_checks(
        server,
        context.name,
        [constraint for constraint in table.constraints if isinstance(constraint, ddl.CheckConstraint)],
        [one for one in new if isinstance(one, ddl.CheckConstraint) and server.can.keeps_checks],
    )
    return replace(table, columns=columns, constraints=(*keys, *foreign_keys, *checks))


def resolved_constraint(context: Context, constraint: ddl.Constraint) -> ddl.Constraint:
    """Return a constraint with its expressions rewritten for an empty sql_mode."""
    mode = context.session.sql_mode
    match constraint:
        case ddl.CheckConstraint():
            return replace(constraint, expression=without_mode(constraint.expression, mode))
        case ddl.KeyDefinition():
            parts = tuple(
                part if part.expression is None else replace(part, expression=without_mode(part.expression, mode))
                for part in constraint.parts
            )
            return replace(constraint, parts=parts)
    return constraint
