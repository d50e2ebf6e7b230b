"""Merged tables: target tables that take the rows of more than one source table ("owner") of a task.

The rule. Every row of a merged table with a key has one owner, and an owner's changes only touch its own rows. A row
whose key, or another unique value, is held by another row does not overwrite it: it waits in dm_contested_row until the
key is free. So an owner's row at a key is in the target, or waits, or does not exist, and the order in which owners'
logs are applied does not matter: a row that moves from one owner to another is a delete of the one and an insert of the
other, in any order. In safe mode colliding rows are overwritten (sync/safe_mode/last_wins.py).

    owner_writer writes the rows of one owner, inside a transaction of a copy or a sync
    settling     moves waiting rows to keys that have become free
    collision    distinguishes rows that will get their key from rows that never will
    contests     repeats both in a driver
"""
