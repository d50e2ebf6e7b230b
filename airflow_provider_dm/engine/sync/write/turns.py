"""Turns: the order of folded changes whose keys the target may compare as equal.

Changes are folded by the bytes of their keys, but the target's collation may compare two keys as equal ('a', 'A'). If
the log has all deletes, at most one of them exists in the end, so it is enough to write deletes first. If filters skip
deletes (`rules.row_filter`), several may seem to exist, and the last change must win:

    log                INSERT 'a'   (DELETE 'a', skipped)   INSERT 'A'   DELETE 'A'
    folded             write 'a', delete 'A'; in the order of their last changes
    deletes first      'a' exists: a wrong row
    in turns           write 'a'; then delete 'A'

It is not known which keys are equal, only which have the same form (`bucket.forms_function`); for unequal keys turns
are harmless. Within a turn, deletes are written first. Keys of one form have one bucket, so all turns are in one
transaction.
"""

from __future__ import annotations

from airflow_provider_dm.engine.sync.plan.bucket import forms_function
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart
from airflow_provider_dm.engine.sync.write.compactor import Keyed


def turns_of(keyed: Keyed, part: TargetPart) -> list[Keyed]:
    """Divide changes, given in the order of the last change of each key, into as few turns as possible.

    If the table has further unique keys, rows are deleted and inserted, and a turn writes at most one row of a form.
    """
    form_of = forms_function(part)
    turns: list[Keyed] = [{}]
    last: dict[tuple[bytes, ...], tuple[int, bool]] = {}
    for key, change in keyed.items():
        form, writes = form_of(part.row_of(key, *change)), change.after is not None
        turn, written = last.get(form, (0, False))
        if written and (part.unique or not writes):
            turn, written = turn + 1, False
        if turn == len(turns):
            turns.append({})
        turns[turn][key] = change
        last[form] = turn, written or writes
    return turns
