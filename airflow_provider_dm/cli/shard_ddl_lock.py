"""`shard-ddl-lock`: the pending DDL of merged tables' shards, and a user's decisions about it.

shard-ddl-lock [TASK]               the locks in the metadata DB
shard-ddl-lock unlock ID            the owner executes the DDL (with `--action skip` it counts as executed), and the
                                    other sources continue
show-ddl-locks, unlock-ddl-lock     the same, under the names of older releases of DM
"""

from __future__ import annotations

import argparse

from airflow_provider_dm.cli import meta
from airflow_provider_dm.cli.output import Exit, Output
from airflow_provider_dm.cli.parsing import Verbs, add_sources
from airflow_provider_dm.engine.shard.errors import LockRefuses
from airflow_provider_dm.engine.shard.lock import Action
from airflow_provider_dm.launch.ddl_locks import locks_document, unlock


def add_verbs(verbs: Verbs) -> None:
    both = verbs.add("shard-ddl-lock", shard_ddl_lock)
    both.add_argument("words", metavar="[TASK] | unlock ID", nargs="*")
    add_sources(both)
    _add_decision(both)
    meta.add_arguments(both)
    show = verbs.add("show-ddl-locks", show_locks)
    show.add_argument("task", metavar="TASK", nargs="?")
    add_sources(show)
    meta.add_arguments(show)
    old = verbs.add("unlock-ddl-lock", unlock_lock)
    old.add_argument("id", metavar="ID")
    _add_decision(old)
    meta.add_arguments(old)


def _add_decision(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--owner", "-o", metavar="SOURCE-ID", help="the source whose DDL is executed; default: the first"
    )
    parser.add_argument("--number", type=int, metavar="N", help="number of the DDL; refused if another one is pending")
    parser.add_argument("--force-remove", "-f", action="store_true", help="although a source has not reported the DDL")
    parser.add_argument(
        "--action",
        choices=[action.value for action in Action],
        default=Action.EXEC.value,
        help="skip: you have executed the change in the target yourself",
    )


def shard_ddl_lock(arguments: argparse.Namespace, output: Output) -> Exit:
    """Show locks, or decide about one, according to the words. Raises LockRefuses."""
    words: list[str] = arguments.words
    if words[:1] == ["unlock"] and len(words) == 2:
        arguments.id = words[1]
        return unlock_lock(arguments, output)
    if words[:1] == ["unlock"] or len(words) > 1:
        raise LockRefuses(" ".join(words[1:]), "give the ID of one lock, in quotes")
    arguments.task = words[0] if words else None
    return show_locks(arguments, output)


def show_locks(arguments: argparse.Namespace, output: Output) -> Exit:
    with meta.open_store(arguments) as store:
        return output.document(locks_document(store, arguments.task, arguments.sources))


def unlock_lock(arguments: argparse.Namespace, output: Output) -> Exit:
    """Decide about a lock; print DM's answer. Raises LockRefuses."""
    with meta.open_store(arguments) as store:
        action = Action(arguments.action)
        owner, force, number = arguments.owner, arguments.force_remove, arguments.number
        lock = unlock(store, arguments.id, owner=owner, action=action, force=force, number=number)
        msg = f"{lock.owner} carries out the decision when it next reads the lock: now, or in the task's next run"
    return output.document({"result": True, "msg": msg})
