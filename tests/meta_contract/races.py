"""Races between real processes."""

import multiprocessing
from collections.abc import Callable
from typing import Any, Final

PROCESSES: Final = 8


def race(act: Callable[[str, int], str], count: int, meta_url: str) -> list[str]:
    """Return what each of `count` processes answers that begin at the same moment."""
    # Real processes, with no state from this one, that need not import everything each for itself.
    context = multiprocessing.get_context("forkserver")
    drivers = ["sqlalchemy.dialects.mysql.pymysql", "sqlalchemy.dialects.postgresql.psycopg", "pymysql", "psycopg"]
    context.set_forkserver_preload([act.__module__, *drivers])
    barrier, answers = context.Barrier(count), context.SimpleQueue()
    racers = [context.Process(target=_racer, args=(act, barrier, answers, meta_url, number)) for number in range(count)]
    for racer in racers:
        racer.start()
    found = [answers.get() for _ in racers]
    for racer in racers:
        racer.join()
    return found


def _racer(act: Callable[[str, int], str], barrier: Any, answers: Any, meta_url: str, number: int) -> None:
    barrier.wait(60)
    try:
        answers.put(act(meta_url, number))
    except BaseException as error:  # noqa: BLE001 - the parent must not wait for ever
        answers.put(repr(error))
