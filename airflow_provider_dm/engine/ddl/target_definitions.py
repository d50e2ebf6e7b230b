"""Columns, keys, constraints and options of a statement, as the target's table gets them.

The source's server has defaults for a text column's collation and a TIMESTAMP's NULL. Another server has others, so
the target's statement is explicit: it has the values of the statement or of `ConversionContext.resolve`; if both lack
one, NotCopyable is raised. Between flavours the rules of `dialects` apply, and in addition:

    CHECK            within a family it is copied if all of it is known; between families it is left out with a note:
                     the rows have satisfied it at the source
    FOREIGN KEY      within a family it is copied and refers to the target table of its parent; between families, and if
                     the rules exclude the parent, it is left out with a note. A foreign key that changes rows (CASCADE,
                     SET NULL, SET DEFAULT) is refused, unless the source logs those rows
    computed default left out with a note if the target cannot have it: all written rows have values. A new column of
                     existing rows that has one is refused (`target_alter`)
    REFERENCES       inline, it is left out with a note, as old servers ignore it and new ones do not
    storage          KEY_BLOCK_SIZE, COLUMN_FORMAT, MAX_ROWS, … are left out, with a note if a user chose them
    location, keys   DATA DIRECTORY, ENCRYPTION, … are refused: a user has to decide about them
    ENGINE           other than InnoDB is refused: writes must be transactional
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_provider_dm.engine.ddl import statements as ddl
from airflow_provider_dm.engine.ddl.collations import character_bytes
from airflow_provider_dm.engine.ddl.column_types import CHARACTER_TYPES, LARGE, LONGEST_VARCHAR, octets
from airflow_provider_dm.engine.ddl.dialects import (
    charset_of,
    check_default,
    collation_for,
    column_for,
    key_for,
    missing_collation,
    replaced,
)
from airflow_provider_dm.engine.ddl.errors import NotCopyable
from airflow_provider_dm.engine.ddl.keys import key_bytes
from airflow_provider_dm.engine.ddl.target_code import (
    checked_default,
    checked_expression,
    checked_partitions,
    is_moment,
    plain,
    plain_default,
    rounded,
)
from airflow_provider_dm.engine.mysql.capabilities import CAPABILITIES, Capabilities
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.identifiers import TableName, quote
from airflow_provider_dm.engine.schema.strings import CHARSETS

_LONGEST_KEY: Final = 3072
"""Bytes of a key, by default of innodb_page_size, and of TiDB's max-index-length."""
_CHANGES_ROWS: Final = frozenset({"CASCADE", "SET NULL", "SET DEFAULT"})

_COLUMN_OPTIONS: Final = frozenset({"COMPRESSED", "SRID"})
_KEY_OPTIONS: Final = frozenset({"USING", "COMMENT", "INVISIBLE", "IGNORED", "M", "DISTANCE", "WITH PARSER"})
_TABLE_OPTIONS: Final = frozenset({"COMMENT", "ROW_FORMAT"})
_STORING: Final = frozenset(
    {"KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS", "AVG_ROW_LENGTH", "CHECKSUM", "TABLE_CHECKSUM", "DELAY_KEY_WRITE"}
    | {"PACK_KEYS", "COMPRESSION", "AUTOEXTEND_SIZE", "PAGE_CHECKSUM", "TRANSACTIONAL", "PAGE_COMPRESSED"}
    | {"PAGE_COMPRESSION_LEVEL", "TABLESPACE", "NODEGROUP", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"}
    | {"SECONDARY_ENGINE", "WITH PARSER", "COMMENT", "UNION", "INSERT_METHOD", "CONNECTION", "PASSWORD", "IETF_QUOTES"}
)
"""Options that are left out with a note, unless they are copied."""
_SILENTLY_DROPPED: Final = frozenset(
    {"AUTO_INCREMENT", "STATS_PERSISTENT", "STATS_AUTO_RECALC", "STATS_SAMPLE_PAGES", "START TRANSACTION", "STORAGE"}
    | {"VISIBLE", "NOT IGNORED", "CLUSTERED", "ALGORITHM", "LOCK", "COLUMN_FORMAT", "REF_SYSTEM_ID"}
)
"""Options that are left out without a note: they have no effect, or each server counts or chooses them itself."""


@dataclass(frozen=True)
class ConversionContext:
    """The context of a source and its target: servers, rules, and functions for what only a server or the tracker
    knows.

    `sql_mode`: the statement's, which the session that runs it has too. `resolve`: a column after the statement, as the
    source has it, by the table's name before it; `collation`: that table's default; `was`: that table before it.
    `numbers_alike`: whether a new AUTO_INCREMENT assigns the same numbers to rows: the table has a primary key before
    the statement, and exactly the source's rows. `is_json`: whether the target's column is JSON before it.
    `cascades_are_logged`: the source's log has the rows that its foreign keys change. `strict_collations`: a collation
    that the target's family lacks raises an error (`collation_compatible`).
    """

    sql_mode: int
    source: Flavour
    target_can: Capabilities
    route: Callable[[TableName], TableName]
    allows: Callable[[TableName], bool]
    resolve: Callable[[TableName, str], ddl.ColumnDefinition | None]
    collation: Callable[[TableName], str | None] = lambda _: None
    was: Callable[[TableName], ddl.TableDefinition | None] = lambda _: None
    numbers_alike: Callable[[TableName], bool] = lambda _: False
    is_json: Callable[[TableName, str], bool] = lambda _table, _column: False
    cascades_are_logged: bool = False
    strict_collations: bool = False

    @property
    def target(self) -> Flavour:
        return self.target_can.flavour

    @property
    def one_family(self) -> bool:
        return CAPABILITIES[self.source].family is self.target_can.family

    @property
    def carries_code(self) -> bool:
        """Generated columns and partitions are carried: within a family, and where a DDL whose rows they may decide in
        another way stops (`conversions`). What is generated for a row that is written is compared in any case."""
        return self.one_family or not self.target_can.computes_as_sources

    def fills(self, column: ddl.ColumnDefinition) -> bool:
        """Return True if the target fills a new column of existing rows with its default as its sources do."""
        if column.default is None or self.target_can.default_functions is None:
            return True
        kept = plain_default(column.default, self.sql_mode, ())
        if kept is None or not self.left_out(kept, column.type):
            return kept is not None
        return kept == "''" and column.nullable is False  # what such a column gets without a default

    def left_out(self, default: ddl.Code, kind: ddl.ColumnType) -> bool:
        """Return True for a literal that only MariaDB accepts as a default, and that no row needs."""
        mariadbs = self.source is Flavour.MARIADB and self.target_can.default_functions is not None
        return mariadbs and kind.name in LARGE and default.upper() != "NULL"


@dataclass
class TableConverter:
    """Converts the definitions of one table of the source for the target, and collects notes for a user."""

    way: ConversionContext
    table: TableName
    notes: list[str]
    wider: set[str] = field(default_factory=set)
    """Columns whose charset becomes one with longer characters."""

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # Tables

    def renamed(self, new: TableName) -> tuple[TableName, TableName] | None:
        """Return the table's old and new name in the target; None if nothing changes. Raises NotCopyable."""
        allowed = self.way.allows(self.table), self.way.allows(new)
        if allowed == (False, False):
            return None
        if allowed != (True, True):
            raise NotCopyable(f"the new name {new} of {self.table}: the rules exclude one of them")
        pair = self.way.route(self.table), self.way.route(new)
        if pair[0] == pair[1] or self._is_one_name(*pair):
            self.note(f"{self.table} and {new} have the same target table {pair[0]}")
            return None
        return pair

    def _is_one_name(self, one: TableName, other: TableName) -> bool:
        return not self.way.target_can.distinguishes_case and str(one).lower() == str(other).lower()

    def definition(self, table: ddl.TableDefinition) -> ddl.TableDefinition:
        """Return the definition of a new table. Raises NotCopyable."""
        constraints = [one for one in map(self.constraint, table.constraints) if one is not None]
        columns = self._columns(table.columns)
        self._stop_at_long_keys(columns, constraints)
        return ddl.TableDefinition(
            columns,
            tuple(constraints),
            self.options(self._with_default(table.options)),
            None if table.partitioning is None else self.partitions(table.partitioning),
        )

    def _columns(self, columns: Sequence[ddl.ColumnDefinition]) -> tuple[ddl.ColumnDefinition, ...]:
        """Return the columns of a new table. Raises NotCopyable, which names all columns that are refused."""
        made: list[ddl.ColumnDefinition] = []
        refused: list[str] = []
        for column in columns:
            try:
                made.append(self.column(column))
            except NotCopyable as error:
                refused.append(str(error))
        if refused:
            raise NotCopyable("; ".join(dict.fromkeys(refused)))
        return tuple(made)

    def _stop_at_long_keys(
        self, columns: Sequence[ddl.ColumnDefinition], constraints: Sequence[ddl.Constraint]
    ) -> None:
        by_name = {column.name.lower(): column for column in columns}
        for key in constraints:
            if not isinstance(key, ddl.KeyDefinition) or key.kind is ddl.KeyKind.FULLTEXT:
                continue
            wider = any(str(part.column).lower() in self.wider for part in key.parts)
            if wider and (size := key_bytes(by_name, key)) > _LONGEST_KEY:
                raise NotCopyable(f"the key {key.name}, which takes {size} bytes in utf8mb4, above {_LONGEST_KEY}")

    def partitions(self, code: str) -> str:
        if not self.way.carries_code:
            raise NotCopyable("partitions, which may differ in the other flavour")
        made = checked_partitions(code, self.way.sql_mode)
        if "SUBPARTITION" in made.upper() and not self.way.target_can.subpartitions:
            self.note("the subpartitions are left out")
        return made

    def _with_default(self, options: ddl.Options) -> ddl.Options:
        known = self.way.collation(self.table)
        if known is None or any(name == "COLLATE" for name, _ in options):
            return options
        without = tuple(option for option in options if option[0] != "CHARSET")
        return (*without, ("CHARSET", charset_of(known)), ("COLLATE", known))

    def changed_options(self, options: ddl.Options) -> ddl.Options:
        """Return new options of an existing table; a charset gets its collation, whose default differs by server."""
        return self._with_default(options) if any(name == "CHARSET" for name, _ in options) else options

    def options(self, options: ddl.Options) -> ddl.Options:
        """Return the options of a table that are copied. Raises NotCopyable."""
        kept: list[tuple[str, str]] = []
        named = dict(options).get("COLLATE")
        collation = None if named is None else self.collation(named)
        for name, value in options:
            if name in ("ENGINE", "TYPE"):
                if value.upper() != "INNODB":
                    raise NotCopyable(f"the engine {value}")
                kept.append(("ENGINE", "InnoDB"))
            elif name == "COLLATE" and collation is not None:
                kept.append((name, collation))
            elif name == "CHARSET":
                kept.append((name, self.charset(value) if collation == named else charset_of(str(collation))))
            elif name in _TABLE_OPTIONS:
                kept.append((name, value))
            elif not self._is_left_out(name, value, "the table"):
                raise NotCopyable(f"the table option {name}={value}".rstrip("="))
        return tuple(kept)

    def collation(self, name: str, of: str = "the table") -> str:
        """Return the collation in the target's family, or its replacement. Raises NotCopyable."""
        self.charset(charset_of(name))
        becomes = collation_for(name, self.way.source, self.way.target)
        if becomes != name:
            if self.way.strict_collations:
                raise NotCopyable(f"{missing_collation(name)} (of {of})")
            self._note_replaced(replaced(name, becomes), of)
        return becomes

    def _note_replaced(self, text: str, of: str) -> None:
        """Note a replacement once, with the names of all columns and tables that have it."""
        for at, note in enumerate(self.notes):
            if note.startswith(f"{text} (of "):
                named = note.removeprefix(f"{text} (of ")[:-1].split(", ")
                self.notes[at] = note if of in named else f"{note[:-1]}, {of})"
                return
        self.note(f"{text} (of {of})")

    def charset(self, name: str) -> str:
        if name.lower() == "gb18030" and not self.way.target_can.gb18030:
            raise NotCopyable(f"the character set {name}")
        return name

    def _is_left_out(self, name: str, value: str, of: str) -> bool:
        """Return True if an option is left out, which is noted if a user chose it."""
        if name in _STORING and value.upper() not in ("", "DEFAULT", "NULL"):
            self.note(f"{name} of {of} is left out")
        return name in _SILENTLY_DROPPED or name in _STORING or (name == "ENCRYPTION" and value.upper() == "N")

    # Columns

    def column(self, column: ddl.ColumnDefinition) -> ddl.ColumnDefinition:
        """Return the column with all attributes that another server might fill in differently. Raises NotCopyable."""
        name = quote(column.name)
        column = self._resolved(column)
        options = tuple(one for one in column.options if one[0] in _COLUMN_OPTIONS)
        for option, value in column.options:
            if option not in _COLUMN_OPTIONS and not self._is_left_out(option, value, name):
                raise NotCopyable(f"{option} {value} of {name}")
        if any(option == "SRID" and not value.isdecimal() for option, value in options):
            raise NotCopyable(f"the SRID of {name}")
        if column.references is not None:
            self._stop_if_it_changes_rows(column.references, f"of {name}")
            self.note(f"REFERENCES {column.references.table} of {name} is left out")
        on_update = None if column.on_update is None else plain(column.on_update, self.way.sql_mode)
        if on_update is not None and not is_moment(on_update, self.way.sql_mode):
            raise NotCopyable(f"ON UPDATE {on_update} of {name}")
        self._stop_at_defaults_of_mariadb(column, name)
        column = replace(
            column,
            type=self._type(column),
            default=self._default(column.default, column, name),
            on_update=on_update,
            generated=None if column.generated is None else self._generated(column.generated),
            checks=tuple(check for check in map(self._check, column.checks) if check is not None),
            references=None,
            options=options,
        )
        return column_for(column, self.way.source, self.way.target_can, self.note)

    def _default(self, code: str | None, column: ddl.ColumnDefinition | None, of: str) -> str | None:
        if code is None:
            return None
        functions = self.way.target_can.default_functions
        if functions is None:
            return checked_default(code, self.way.sql_mode, of=of, expressions=self.way.one_family)
        kept = plain_default(code, self.way.sql_mode, functions)
        if kept is None or (column is not None and self.way.left_out(kept, column.type)):
            self.note(f"the default {code} of {of} is left out")
            return None
        return kept if column is None else rounded(kept, column.type)

    def changed_default(self, name: str, code: str | None) -> str | None:
        """Return the new default of an existing column. Raises NotCopyable."""
        known = self.way.resolve(self.table, name)
        default = self._default(code, known, quote(name))
        if known is not None:
            if default is None and known.nullable is not False and self._drops_to_null(known):
                default = "NULL"
            changed = replace(known, default=default, on_update=None)
            self._stop_at_defaults_of_mariadb(changed, quote(name))
            check_default(changed, self.way.target_can)
        return default

    def _drops_to_null(self, column: ddl.ColumnDefinition) -> bool:
        """Return True if DROP DEFAULT leaves NULL at the source, while other servers leave no default."""
        takes_it = column.type.name not in LARGE or self.way.target_can.default_functions is not None
        return self.way.source is Flavour.MARIADB and not self.way.one_family and takes_it

    def _stop_at_defaults_of_mariadb(self, column: ddl.ColumnDefinition, name: str) -> None:
        """Refuse defaults that MariaDB accepts and the other family does not."""
        if self.way.one_family or self.way.target is Flavour.MARIADB:
            return
        default, kind = column.default, column.type
        large = kind.name in LARGE and self.way.target_can.default_functions is None
        if default is not None and default.upper() != "NULL" and large:  # only MariaDB accepts their literals
            raise NotCopyable(f"the default {default} of {name}, a {kind.name}")
        for moment in (default, column.on_update):
            if moment is None or not is_moment(moment, self.way.sql_mode):
                continue
            precision = "".join(character for character in moment if character.isdecimal()) or "0"
            if kind.name not in ("datetime", "timestamp") or precision != "".join(kind.arguments or ("0",)):
                raise NotCopyable(f"the default {moment} of {name}, whose type has another precision")

    def _resolved(self, column: ddl.ColumnDefinition) -> ddl.ColumnDefinition:
        """Return the column with the attributes that the source's server has filled in."""
        known = self.way.resolve(self.table, column.name)
        if known is not None:
            kind = column.type if column.type.name == "json" else known.type
            column = replace(column, type=kind)
            if column.nullable is None and column.generated is None:  # MariaDB rejects NULL for generated columns
                column = replace(column, nullable=known.nullable)
            if kind.name == "timestamp" and column.default is None and column.on_update is None:
                column = replace(column, default=known.default, on_update=known.on_update)
        if column.type.name == "timestamp" and column.nullable is None and column.generated is None:
            raise NotCopyable(f"{quote(column.name)}, a timestamp with neither NULL nor NOT NULL in the statement")
        return column

    def _type(self, column: ddl.ColumnDefinition) -> ddl.ColumnType:
        kind, name = column.type, quote(column.name)
        if kind.name == "json" and self.way.source is Flavour.MARIADB:
            if self.way.target is Flavour.MARIADB:
                return kind
            self.note(f"{name} is text without a check")
            return ddl.ColumnType("longtext", charset="utf8mb4", collation="utf8mb4_bin")
        if kind.name not in CHARACTER_TYPES:
            return replace(kind, charset=None, collation=None, binary=False)
        collation = kind.collation
        if collation is None and kind.charset is not None and (kind.binary or kind.charset == "binary"):
            collation = kind.charset if kind.charset == "binary" else f"{kind.charset}_bin"
        if collation is None:
            raise NotCopyable(f"the collation of {name}, which the statement does not name")
        charset = (kind.charset or charset_of(collation)).lower()
        if charset not in CHARSETS | {"binary"}:
            raise NotCopyable(f"the character set of {name}, which has the collation {collation}")
        becomes = self.collation(collation, name)
        charset = self.charset(charset) if becomes == collation else charset_of(becomes)
        made = replace(kind, charset=charset, collation=becomes, binary=False)
        if character_bytes(becomes) > character_bytes(collation):
            self.wider.add(column.name.lower())
            if kind.name == "varchar" and (octets(made) or 0) > LONGEST_VARCHAR:
                raise NotCopyable(f"{name}, which is too long for a VARCHAR in {charset}")
        return made

    def _generated(self, code: str) -> str:
        # Between families `column_for` refuses generated columns.
        return checked_expression(code, self.way.sql_mode) if self.way.carries_code else code

    # Keys and constraints

    def constraint(self, constraint: ddl.Constraint) -> ddl.Constraint | None:
        """Return a key or a constraint; None if it is left out. Raises NotCopyable."""
        match constraint:
            case ddl.KeyDefinition():
                return self.key(constraint)
            case ddl.CheckConstraint():
                return self._check(constraint)
            case ddl.ForeignKey():
                return self._foreign_key(constraint)

    def key(self, key: ddl.KeyDefinition) -> ddl.KeyDefinition | None:
        """Return a key; None if it is left out. Raises NotCopyable."""
        name = f"the key {key.name or key.constraint or '()'}"
        options = []
        for option, value in key.options:
            if option not in _KEY_OPTIONS:
                if not self._is_left_out(option, value, name):
                    raise NotCopyable(f"{option} {value} of {name}")
            elif option == "WITH PARSER" and not (value.lower() == "ngram" and self.way.source is self.way.target):
                self.note(f"{option} {value} of {name} is left out")
            elif option == "USING" and value != "BTREE" and key.kind is not ddl.KeyKind.UNIQUE:
                pass  # InnoDB has only BTREE; HASH marks a UNIQUE key longer than an index (`dialects`)
            elif option == "IGNORED":
                options.append((self.way.target_can.key_visibility[True], value))
            else:
                options.append((option, value))
        key = replace(key, parts=tuple(map(self._part, key.parts)), options=tuple(options))
        return key_for(key, self.way.source, self.way.target_can, self.note)

    def _part(self, part: ddl.KeyPart) -> ddl.KeyPart:
        if part.expression is None or not self.way.one_family:  # `key_for` refuses key expressions
            return part
        return replace(part, expression=checked_expression(part.expression, self.way.sql_mode))

    def _check(self, check: ddl.CheckConstraint) -> ddl.CheckConstraint | None:
        if self.way.one_family:
            if needs := self.way.target_can.checks_need:
                self.note(f"CHECK {check.expression} holds only while {needs} is ON")
            return replace(check, expression=checked_expression(check.expression, self.way.sql_mode))
        self.note(f"CHECK {check.expression} is left out")
        return None

    def _foreign_key(self, key: ddl.ForeignKey) -> ddl.ForeignKey | None:
        parent = key.references.table
        name = f"the foreign key {key.constraint or key.name or '()'} to {parent}"
        self._stop_if_it_changes_rows(key.references, name)
        if not (self.way.one_family and self.way.allows(parent)):
            self.note(f"{name} is left out")
            return None
        return replace(key, references=replace(key.references, table=self.way.route(parent)))

    def _stop_if_it_changes_rows(self, reference: ddl.Reference, name: str) -> None:
        changing = [f"{when} {action}" for when, action in reference.actions if action in _CHANGES_ROWS]
        if changing and not self.way.cascades_are_logged:
            raise NotCopyable(f"{changing[0]} {name}: the rows that it changes are not in the source's log")
