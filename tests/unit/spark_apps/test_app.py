"""Requests of a user to the sources of an app."""

import gc
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_provider_dm.engine.downstream.errors import TargetUnreachable
from airflow_provider_dm.engine.meta.errors import MetaUnreachable
from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.reported import EXIT_ERROR, EXIT_FINISHED, EXIT_STOPPED
from spark_apps.app import App, Outcome, _finish, main
from tests.jobs import NOWHERE, job_spec, source_spec

LOST = TargetUnreachable("target", "gone")


@pytest.fixture
def app() -> App:
    """An app of two sources, whose metadata DB takes everything."""
    names = ("a", "b")
    task = {"name": "t", "mysql_instances": [{"source_id": name} for name in names]}
    spec = job_spec(task, [source_spec(name) for name in names])
    store = SimpleNamespace(heartbeat_run=lambda *_: None, finish_run=lambda *_, **__: None)
    return App(spec, cast(Any, store), threading.Event(), threading.Event(), NOWHERE.resolve())


def closed(app: App) -> list[bool]:
    return [gate.closed.is_set() for gate in app.gates.values()]


def test_a_request_for_one_source_does_not_affect_the_others(app: App) -> None:
    app.apply_requests({"a": Stage.PAUSED})
    assert (closed(app), app.is_halted(), app.stop.is_set()) == ([True, False], True, False)
    app.apply_requests({"a": Stage.RUNNING})
    assert (closed(app), app.is_halted()) == ([False, False], False)
    app.apply_requests({"a": Stage.STOPPED})
    assert (closed(app), app.wait_while_paused(), app.stop.is_set()) == ([True, False], False, False)


def test_the_app_stops_when_all_sources_are_to_stop(app: App) -> None:
    app.apply_requests({"a": Stage.STOPPED, "b": Stage.STOPPED})
    app.apply_requests({})

    assert app.asked.is_set()
    assert closed(app) == [True, True]


@pytest.mark.parametrize(
    ("asked", "outcome", "failure", "code"),
    [
        (False, Outcome({}), None, EXIT_FINISHED),
        (True, Outcome({}), None, EXIT_FINISHED),
        (True, Outcome({}, finished=False), None, EXIT_STOPPED),
        (False, Outcome({}, finished=False), None, EXIT_STOPPED),  # one of its sources was stopped
        (True, Outcome({}, finished=False), LOST, EXIT_STOPPED),
        (False, Outcome({}, finished=False), LOST, EXIT_ERROR),
    ],
)
def test_the_outcome_decides_the_exit_code(
    app: App, *, asked: bool, outcome: Outcome, failure: Exception | None, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    if asked:
        app.ask_to_stop()

    assert _finish(app, outcome, failure) == code


def test_an_outcome_that_the_metadata_db_rejects_is_logged(app: App, caplog: pytest.LogCaptureFixture) -> None:
    def gone(*_: object, **__: object) -> None:
        raise MetaUnreachable("sqlite://", "gone")

    app.store.finish_run = gone  # type: ignore[method-assign]

    assert _finish(app, Outcome({}), None) == EXIT_FINISHED
    assert "the outcome could not be written to the metadata DB" in caplog.text


def test_the_garbage_collector_runs_again_when_all_is_imported() -> None:
    frozen = gc.get_freeze_count()
    gc.disable()
    try:
        assert main(lambda app: Outcome({}), []) == EXIT_ERROR
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen
    finally:
        gc.enable()
