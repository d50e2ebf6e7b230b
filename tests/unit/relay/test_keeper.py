"""Relays that are real processes, of a source that does not answer: the reaction to each of their ends."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.directory_lock import sole_writer
from airflow_provider_dm.engine.relay.errors import RelayLocked
from airflow_provider_dm.engine.relay.keeper import (
    DEATHS_ALLOWED,
    LONGEST_PAUSE_SECONDS,
    DirectoryLocked,
    EndedByCrash,
    EndedByError,
    EndedOnRequest,
    KeptRelay,
    end_of,
    pause_after,
)
from airflow_provider_dm.engine.relay.process import RelayProcess
from airflow_provider_dm.engine.relay.spec import RelaySpec
from airflow_provider_dm.engine.reported import MARK

Keep = Callable[..., KeptRelay]


@pytest.fixture
def keep(tmp_path: Path, meta_url: str) -> Iterator[Keep]:
    kept: list[KeptRelay] = []

    def made(deaths_allowed: int = 1, **environment: str) -> KeptRelay:
        (tmp_path / "relay").mkdir(exist_ok=True)
        source = {
            "config": {"source-id": "one"},
            "endpoint": {"name": "one", "host": "127.0.0.1", "port": 1, "user": "dm"},
            "relay_dir": str(tmp_path / "relay"),
        }
        spec = {"source": source, "meta_url": {"env": "META"}, "launcher_pid": os.getpid()}
        inherited = {**os.environ, "META": meta_url, **environment}
        kept.append(KeptRelay(RelaySpec.model_validate(spec), inherited, tmp_path / "relay.log", deaths_allowed))
        return kept[-1]

    yield made
    for one in kept:
        one.stop(5.0)


def end(kept: KeptRelay, seconds: float = 300) -> EndedOnRequest | EndedByError | EndedByCrash:
    deadline = time.monotonic() + seconds
    while (found := kept.check()) is None:
        assert time.monotonic() < deadline, "it does not end"
        time.sleep(0.2)
    return found


def runs(kept: KeptRelay, seconds: float = 300) -> int:
    """Look until a process holds the directory; gives its id."""
    deadline = time.monotonic() + seconds
    lock = Path(kept.spec.source.relay_dir) / "relay.lock"
    while kept.process is None or not lock.exists() or f"process {kept.process.pid} " not in lock.read_text():
        assert kept.check() is None
        assert time.monotonic() < deadline, "it does not start"
        time.sleep(0.1)
    return kept.process.pid


def test_a_killed_relay_is_restarted(keep: Keep) -> None:
    kept = keep()
    first = runs(kept)

    os.kill(first, signal.SIGKILL)

    assert kept.process is not None
    kept.process.wait()
    assert end_of(kept.process) == EndedByCrash(-signal.SIGKILL, kept.process.tail())
    assert kept.check() is None
    assert kept.is_start_delayed()
    assert runs(kept) != first
    assert kept.deaths == 1


def test_a_relay_that_always_dies_is_given_up_with_the_end_of_its_log(keep: Keep) -> None:
    kept = keep(PYTHONHOME="/not/there")
    ended = end(kept)
    assert isinstance(ended, EndedByCrash)
    assert ended.exit_code == 1
    assert "/not/there" in ended.tail  # Python's message
    assert kept.deaths == 2


def test_a_typed_error_is_not_answered_by_a_restart(keep: Keep) -> None:
    kept = keep(META="sqlite:////not/there/meta.db")
    ended = end(kept)
    assert isinstance(ended, EndedByError)
    assert ended.error.code.startswith("DM-8")
    assert kept.deaths == 0


def test_a_stopped_relay_has_ended_despite_another_relays_log(keep: Keep, store: MetaStore) -> None:
    """Two relays of one source share a directory; the standby waits again and again."""
    kept = keep()
    runs(kept)
    with open(kept.log_path, "a") as file:
        file.write(f'{MARK}{{"ErrCode": "{RelayLocked.code}"}}\n')
    store.set_relay_desired("one", Stage.STOPPED)

    assert end(kept) == EndedOnRequest()


def test_another_writer_of_the_directory_is_awaited(keep: Keep) -> None:
    kept = keep()
    with sole_writer(Path(kept.spec.source.relay_dir)):
        assert kept.check() is None
        assert kept.process is None
        assert f"process {os.getpid()} on" in str(kept.holder)
        faster = RelayProcess.start(kept.spec, kept.environment, kept.log_path)  # by another launcher
        faster.wait()
        found = end_of(faster)
        assert isinstance(found, DirectoryLocked)
        kept.process = faster
        assert kept.check() is None
        assert kept.deaths == 0

    runs(kept)
    assert kept.holder is None


def test_pauses_grow_to_a_bound() -> None:
    pauses = [pause_after(deaths) for deaths in range(1, DEATHS_ALLOWED + 1)]
    assert pauses == sorted(pauses)
    assert pauses[0] <= 1
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
