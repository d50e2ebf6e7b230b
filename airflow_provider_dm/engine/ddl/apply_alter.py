"""What ALTER TABLE makes of a table. Not part by part: all its parts are about the table as it was.

    t (a, b, c), KEY k (a, b):  ALTER TABLE t DROP a, ADD d int AFTER b, MODIFY b bigint AFTER c, ADD KEY (c)
    1. the columns that were there, under their new definitions, without those dropped:  b c
    2. what is new and what gets another place, in the order of the text:                b d c ─▶ d c b
    3. the keys that were there, without the columns dropped; then the new ones, which get their names:  k (b), c (c)

A statement that the server refuses is never logged, so what cannot be is not looked for, except where the model must
have been wrong before (CannotTrack).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from airflow_provider_dm.engine.ddl.altered_columns import columns_said, fates_of, in_order, with_new_names
from airflow_provider_dm.engine.ddl.altered_constraints import constraints_left, constraints_said
from airflow_provider_dm.engine.ddl.collations import Collation, collation_named
from airflow_provider_dm.engine.ddl.if_exists import without_needless
from airflow_provider_dm.engine.ddl.resolve import Context, kept_options, settled, table_collation
from airflow_provider_dm.engine.ddl.server import CannotTrack
from airflow_provider_dm.engine.ddl.statements import (
    Code,
    ConvertCharset,
    Options,
    Repartition,
    SetOptions,
    Spec,
    TableDefinition,
)


def altered(context: Context, table: TableDefinition, specs: Sequence[Spec]) -> TableDefinition:
    """Return the table after the parts of one ALTER TABLE, under its old name. Raises CannotTrack."""
    specs = without_needless(context.server, table, specs)
    collation, converted = _collations(context, table, specs)
    said = columns_said(context, specs, collation, converted)
    fates = fates_of(context, table, specs, said, converted)
    columns = in_order(table, specs, said, fates)
    names = {name: column.name for name, column in fates.items() if column is not None}

    changed = replace(
        table,
        columns=tuple(with_new_names(column, names) for column in columns),
        constraints=tuple(constraints_left(context, table, specs, fates, columns)),
        options=kept_options((*table.options, *_options(specs)), collation),
        partitioning=_partitioning(table, specs),
    )
    return settled(context, changed, list(constraints_said(context, specs, said)))


# Charsets


def _collations(context: Context, table: TableDefinition, specs: Sequence[Spec]) -> tuple[Collation, Collation | None]:
    """Return the table's new default, and what its columns are converted to; None: they are not."""
    current = collation_named(context.server, dict(table.options)["COLLATE"])
    options = _options(specs)
    conversions = [spec for spec in specs if isinstance(spec, ConvertCharset)]
    if not conversions:
        return table_collation(context, options, current), None
    if len(conversions) > 1 or any(name in ("CHARSET", "COLLATE") for name, _ in options):
        # Which of the two is the table's default then depends on the flavour, and on their order.
        raise CannotTrack("CONVERT TO CHARACTER SET and another default in one statement")
    (spec,) = conversions
    collate = () if spec.collation is None else (("COLLATE", spec.collation),)
    to = table_collation(context, (("CHARSET", spec.charset or "default"), *collate), None)
    return to, to


def _options(specs: Sequence[Spec]) -> Options:
    return tuple(option for spec in specs if isinstance(spec, SetOptions) for option in spec.options)


def _partitioning(table: TableDefinition, specs: Sequence[Spec]) -> Code | None:
    """Return how the table is partitioned, as it was last said in full: single partitions are not followed."""
    found = table.partitioning
    for spec in specs:
        if isinstance(spec, Repartition) and spec.what.upper().startswith("PARTITION BY"):
            found = spec.what
        elif isinstance(spec, Repartition) and spec.what.upper() == "REMOVE PARTITIONING":
            found = None
    return found
