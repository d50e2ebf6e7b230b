"""The weights of characters, read from the target: which texts its collations treat as equal (`schema/text_folds.py`).

A collation has up to 66,000, which takes a fifth of a second; a process reads them once.
"""

from __future__ import annotations

from collections.abc import Iterable

import pymysql
from pymysql.constants import ER

from airflow_provider_dm.engine.mysql.connection import Connection, query, server_info
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.schema.collation_weights import weight_of, weights_in
from airflow_provider_dm.engine.schema.text_folds import (
    TextFold,
    all_pairs,
    blocks_of,
    can_fold,
    first_level,
    fold_of,
)

_known: dict[tuple[str, int, str, str], TextFold | None] = {}


def read_folds(connection: Connection, collations: Iterable[str]) -> dict[str, TextFold]:
    """Return the folds of these collations, of those that have one. Raises IncompleteResult.

    TiDB's weights have not been verified against its comparisons, so none of its collations has a fold.
    """
    wanted = sorted(name for name in set(collations) if can_fold(name))
    info = server_info(connection) if wanted else None
    if info is None or info.flavour is Flavour.TIDB:
        return {}
    folds: dict[str, TextFold] = {}
    for name in wanted:
        key = (info.version, info.server_id, info.server_uuid, name)
        if key not in _known:
            _known[key] = _read(connection, name)
        fold = _known[key]
        if fold is not None:
            folds[name] = fold
    return folds


def _read(connection: Connection, collation: str) -> TextFold | None:
    """Return the fold; None also if the server lacks the collation: a table whose DDL was interrupted is planned with
    the source's definition until the DDL is completed (`plan_for`)."""
    first, blocks = first_level(collation), blocks_of(collation)
    codes = (256 * block + number for block in blocks for number in range(256))
    try:
        found = zip(codes, weights_in(connection, first, blocks), strict=True)
    except pymysql.err.OperationalError as error:
        if error.args[0] == ER.UNKNOWN_COLLATION:
            return None
        raise
    weights = {code: weight for code, weight in found if weight is not None}
    ((pairs,),) = query(connection, f"SELECT {weight_of('%s', first)}", (all_pairs(),))
    return fold_of(collation, weights, bytes(pairs or b""))
