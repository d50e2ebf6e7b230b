"""Turns: folded changes of keys that the target may hold for one, one behind the other.

Keys are folded by their bytes, and the target's collation may take two of them for one ('a', 'A'). As long as the log
has all deletes that does no harm: at most one of them is there in the end, so deletes go before writes. Where filters
leave deletes out (`rules.row_filter`), several may seem to be there, and the last change of all decides:

    log                INSERT 'a'   (DELETE 'a', left out)   INSERT 'A'   DELETE 'A'
    folded             write 'a', delete 'A'; in the order of their last changes
    deletes first      'a' is there                                                     a row invented
    in turns           write 'a'; delete 'A'

Which keys are equal is not known here, only which have a form in common (`bucket.forms_function`); for unequal keys
turns are harmless. A turn's deletes go before its writes. Keys of one form have one bucket, so turns follow
each other in one transaction.
"""

from __future__ import annotations

from airflow_provider_dm.engine.sync.plan.bucket import forms_function
from airflow_provider_dm.engine.sync.plan.plan_parts import TargetPart
from airflow_provider_dm.engine.sync.write.compactor import Keyed


def turns_of(keyed: Keyed, part: TargetPart) -> list[Keyed]:
    """Cut changes, in the order in which each key was changed last, into turns; the first has most of them.

    Where a row is deleted and inserted, and not written over (further unique keys), a turn has one write of a form.
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
