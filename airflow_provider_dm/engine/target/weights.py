"""The weights of characters, asked of the target: what its collations take for equal (`schema/text_folds.py`).

Up to 66,000 of them for a collation, which takes a fifth of a second; a process asks once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from airflow_provider_dm.engine.mysql.connection import AnswerCut, Connection, query, server_info
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.schema.text_folds import (
    TextFold,
    all_pairs,
    blocks_of,
    first_level,
    fold_of,
    is_known,
)

_DIGITS: Final = "(SELECT 0 n" + "".join(f" UNION ALL SELECT {number}" for number in range(1, 16)) + ")"
_CHARACTER: Final = "CONVERT(UNHEX(LPAD(HEX(code), 8, '0')) USING utf32)"

_known: dict[tuple[str, int, str, str], TextFold | None] = {}


def read_folds(connection: Connection, collations: Iterable[str]) -> dict[str, TextFold]:
    """Return the folds of those of these collations that have one. Raises AnswerCut.

    TiDB's own tables are nothing that anybody here has compared with its answers: none of its collations has one.
    """
    wanted = sorted(name for name in set(collations) if is_known(name))
    info = server_info(connection) if wanted else None
    if info is None or info.flavour is Flavour.TIDB:
        return {}
    found: dict[str, TextFold] = {}
    for name in wanted:
        key = (info.version, info.server_id, info.server_uuid, name)
        if key not in _known:
            _known[key] = _read(connection, name)
        fold = _known[key]
        if fold is not None:
            found[name] = fold
    return found


def _read(connection: Connection, collation: str) -> TextFold | None:
    charset = collation.partition("_")[0]
    weight = f"WEIGHT_STRING(CONVERT(%s USING {charset}) COLLATE {first_level(collation)})"
    blocks = blocks_of(collation)
    numbers = f"SELECT {blocks[0]} n" + "".join(f" UNION ALL SELECT {block}" for block in blocks[1:])
    codes = f"SELECT 256 * c.n + 16 * b.n + a.n code FROM ({numbers}) c, {_DIGITS} b, {_DIGITS} a"
    rows = query(connection, f"SELECT code, {weight % _CHARACTER} FROM ({codes}) codes")
    if len(rows) != 256 * len(blocks):
        raise AnswerCut(f"the weights of {collation}", len(rows), 256 * len(blocks))
    ((pairs,),) = query(connection, f"SELECT {weight}", (all_pairs(),))
    weights = {int(code): bytes(one) for code, one in rows if one is not None}
    return fold_of(collation, weights, bytes(pairs or b""))
