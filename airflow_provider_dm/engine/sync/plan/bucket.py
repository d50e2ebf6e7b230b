"""The bucket of a row, which is equal for rows whose keys the target may compare as equal.

A bucket is xxhash64 of the table's name and the key forms of its hashed columns (`plan.TargetPart`), modulo the number
of buckets. Each value is preceded by its place in the key and its length, so that ("a", "bc") and ("ab", "c") differ.

If the key ends with an integer, that is not hashed but added: RUN adjacent values share a bucket, and the next RUN have
the next bucket. A transaction writes neighbouring buckets, so it writes neighbouring rows, and concurrent transactions
seldom write the same page of an index. After each pass over all buckets, Fibonacci hashing chooses the next first
bucket (Knuth, The Art of Computer Programming 3, 6.4), so keys with equal low bits (Snowflake's) spread, too.

dm_frontier depends on the bucket: it may change only together with HASH_VERSION in downstream/subtask.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import repeat
from typing import Any, Final

import numpy as np
import xxhash

from airflow_provider_dm.engine.binlog.images import Cells
from airflow_provider_dm.engine.schema.codec import INTEGERS, Row, Transform, Value, codec_for
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart

BucketOf = Callable[[Row], int]
RUN: Final = 16
"""Adjacent integers in a bucket. Bulk inserts cost MariaDB 10 to 20 % less CPU time than with 1, as with 64. A
transaction has at least a whole bucket, so the key `batch` keeps epochs small if it is not above RUN."""
_FIBONACCI: Final = 0x9E3779B97F4A7C15


@lru_cache(maxsize=1024)
def bucket_function(part: TargetPart, buckets: int) -> BucketOf:
    """Return the function from a row (in the part's column order) to its bucket number, from 0."""
    name = _name(part)
    if part.key is None:
        return lambda row: image_digest(name, row) % buckets
    if not part.hashed:
        whole_table = bucket_of_all(part, buckets)
        return lambda _row: whole_table
    last = part.hashed[-1]
    in_runs = last == part.key[-1] and _is_integer(part, last)
    hashed = part.hashed[:-1] if in_runs else part.hashed
    forms = [(number, form_of(part, number), b"%d:" % part.key.index(number)) for number in hashed]

    def bucket(row: Row) -> int:
        data = name
        for number, form, tag in forms:
            value = form(row[number] or b"")  # columns of an identity key are not null
            data += b"%b%d:%b" % (tag, len(value), value)
        added = _added(row[last], buckets) if in_runs else 0
        return (xxhash.xxh64_intdigest(data) + added) % buckets

    return bucket


def bucket_numbers(part: TargetPart, buckets: int, cells: Cells) -> Any:
    """Return the buckets of all rows of `cells`, as `bucket_function` does for one. Needs the kernels."""
    if len(part.hashed) == 1 and part.key == part.hashed and _is_integer(part, part.hashed[0]):
        numbers, column = cells.integers(part.hashed[0]), part.mapping.source.columns[part.hashed[0]]
        runs = ((numbers.view(np.uint64) if column.unsigned else numbers) // RUN).astype(np.int64)
        spread = (runs // buckets).astype(np.uint64) * np.uint64(_FIBONACCI) >> np.uint64(48)
        return (xxhash.xxh64_intdigest(_name(part)) % buckets + runs + spread.astype(np.int64)) % buckets
    hashed = range(cells.columns) if part.key is None else part.hashed
    columns = [
        cells.column(number) if number in hashed else repeat(None, len(cells)) for number in range(cells.columns)
    ]
    return np.fromiter(map(bucket_function(part, buckets), zip(*columns, strict=True)), np.int64, len(cells))


@lru_cache(maxsize=1024)
def forms_function(part: TargetPart) -> Callable[[Row], tuple[bytes, ...]]:
    """Return the function from a row to the forms of its key, equal for keys that the target may compare as equal."""
    forms = [(number, form_of(part, number)) for number in part.hashed] if part.key is not None else []
    return lambda row: tuple([form(row[number] or b"") for number, form in forms])


def bucket_of_all(part: TargetPart, buckets: int) -> int:
    """Return the bucket of all rows of a table without hashed columns."""
    return xxhash.xxh64_intdigest(_name(part)) % buckets


def _is_integer(part: TargetPart, number: int) -> bool:
    return part.mapping.source.columns[number].data_type in INTEGERS


def _name(part: TargetPart) -> bytes:
    return f"{part.name.schema}\0{part.name.table}\0".encode()


def form_of(part: TargetPart, number: int) -> Transform:
    """Return the function from a value of a column to its form, equal for values that the target may compare as equal.

    For columns of `plan_parts.columns_with_form`.
    """
    column = part.mapping.source.columns[number]
    fold = dict(part.folds).get(number)
    form = fold.form(column.charset) if fold else codec_for(part.mapping.source.name, column).key_form
    assert form is not None, "plan_parts.columns_with_form returns only columns that have one"
    return form


def _added(value: Value, buckets: int) -> int:
    run = int(value or 0) // RUN
    return run + ((run // buckets * _FIBONACCI & (1 << 64) - 1) >> 48)


def image_digest(name: bytes, row: Row) -> int:
    """Return a digest of all values of a row."""
    digest = xxhash.xxh64(name)
    for value in row:
        digest.update(b"-" if value is None else b"%d:" % len(value))
        digest.update(value or b"")
    return digest.intdigest()
