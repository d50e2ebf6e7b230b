"""Merged tables: target tables that take the rows of more than one source table ("owner") of a task.

The law. Every row of a merged table that has a key has one owner, and an owner's changes touch its own rows only. A row
whose place (its key, or another unique value) is held by another row is not written over it: it waits in
dm_contested_row until the place is free. So what an owner has at a key is in the target, or waits, or is not there, and
the order in which owners are heard does not matter: a row that moves from one to the other is a delete of the one and
an insert of the other, whichever comes first. In safe mode rows that collide are written over
(sync/safe_mode/last_wins.py).

    writer       writes the rows of one owner, inside a transaction of a copy or a sync
    settling     moves rows that wait into places that have become free
    collision    tells rows that will find their place from rows that never will
    contests     what a driver does about all this, again and again
"""
