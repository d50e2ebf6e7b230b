"""Which errors of a copy are past when tables are copied again, and which looks find that."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_dm.engine.copy import again, migration
from airflow_provider_dm.engine.copy.groups import Groups
from airflow_provider_dm.engine.copy.sharing import Sharing
from airflow_provider_dm.engine.errors import NotSupportedYet
from airflow_provider_dm.engine.mysql.identifiers import TableName

NOTHING: Any = None
WRONG = NotSupportedYet("a row", "a page", "none")
SHARD, MERGED = TableName("s", "o_1"), TableName("t", "o")


@dataclass
class Looks:
    """The looks of a run at one source: what each tells, and whether it takes pages away."""

    told: list[bool]
    takes: bool
    merged: bool = True
    took: bool = False
    waits: dict[Any, str] = field(default_factory=dict)
    each: Sequence[Any] = field(
        default_factory=lambda: [
            SimpleNamespace(
                source=SimpleNamespace(id="a", endpoint=None), loading=SimpleNamespace(numbers={}, source=None)
            )
        ]
    )

    def look(self, *, closing: bool = False) -> bool:
        found = self.told.pop(0) if self.told else True
        self.took = found and self.takes
        return found

    def look_now_and_then(self) -> bool:
        return False

    def wait(self) -> None:
        return


@pytest.mark.parametrize("takes", [True, False], ids=["copied again", "only waits"])
@pytest.mark.parametrize("where", ["a page", "between two rounds", "at the end"])
def test_an_error_is_past_only_if_pages_were_taken_away(
    monkeypatch: pytest.MonkeyPatch, where: str, takes: bool
) -> None:
    def fails(*_arguments: object) -> Any:
        raise WRONG

    stops = iter([False])
    at_end = where == "at the end"
    monkeypatch.setattr(migration, "_chunks", lambda *_arguments: [])
    monkeypatch.setattr(migration, "_lanes", lambda *_arguments: [] if at_end else ["a lane"])
    if where != "a page":
        monkeypatch.setattr(Sharing, "finish" if at_end else "look", fails)
    hooks = migration.Hooks(fails if where == "a page" else lambda *_arguments: [], 1, lambda: next(stops, True))
    looks: Any = Looks([False, False] if at_end else [], takes)
    copying = migration._Copying(NOTHING, [], looks, hooks)
    with nullcontext() if takes else pytest.raises(NotSupportedYet):
        assert copying.to_the_end() is None  # it goes on until it is stopped


def watches(monkeypatch: pytest.MonkeyPatch, *finds: dict[str, str]) -> again.Watches:
    """One source of a merged table; at each look something else is altered."""
    found = iter(finds)
    groups = Groups({MERGED: frozenset({("a", SHARD)})}, frozenset())
    rules = SimpleNamespace(block_allow=None)
    source = SimpleNamespace(id="a", endpoint=None, rules=rules)
    seen = SimpleNamespace(side=SimpleNamespace(source="a"))
    one: Any = SimpleNamespace(
        source=source, see=lambda _births: seen, looked=lambda: None, altered_by_log=lambda _seen: frozenset()
    )
    seen.watch = one
    monkeypatch.setattr(again, "read_births", lambda *_arguments: None)
    monkeypatch.setattr(again, "settled_births", lambda *_arguments: None)
    monkeypatch.setattr(again.Watches, "_found", lambda *_arguments, **_named: (next(found), groups))
    return again.Watches(NOTHING, [one], NOTHING)


def test_what_is_as_it_was_when_looked_at_again_is_not_copied_again(monkeypatch: pytest.MonkeyPatch) -> None:
    run = watches(monkeypatch, {"a": "altered"}, {})
    assert run.look()
    assert not run.took
    assert not run.waits


@pytest.mark.parametrize("copied", [True, False], ids=["put in doubt now", "in doubt before"])
def test_a_table_that_waits_has_taken_its_pages_away_once(monkeypatch: pytest.MonkeyPatch, copied: bool) -> None:
    chunks = [SimpleNamespace(table=SHARD)] if copied else []
    waiting = SimpleNamespace(
        names=[SHARD],
        seen=SimpleNamespace(stand=SimpleNamespace(chunks=chunks)),
        survey=SimpleNamespace(tables=()),
        watch=SimpleNamespace(source=SimpleNamespace(id="a"), agrees=True),
        without=lambda _waits: SimpleNamespace(names=[]),
    )
    run = watches(monkeypatch, {"a": "altered"})
    groups = Groups({MERGED: frozenset({("a", SHARD)})}, frozenset())
    monkeypatch.setattr(again.Watches, "_settle", lambda _run, **_named: ([waiting], groups, {"a": {}}))
    monkeypatch.setattr(again, "why_unlike", lambda *_arguments: {MERGED: "they differ"})
    assert run.look()
    assert run.took == copied
