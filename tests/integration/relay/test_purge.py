"""A purge of real relay logs: across a failover, and what the relay makes of what is left."""

import signal
import subprocess
import sys
from typing import Any

from airflow_provider_dm.engine.mysql.location import Location
from airflow_provider_dm.engine.relay.directory import INDEX, RelayDirectory
from airflow_provider_dm.engine.relay.meta import META
from airflow_provider_dm.engine.relay.purge import Inactive
from airflow_provider_dm.engine.relay.purge_order import PurgeOrder, carried_out
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.relay.conftest import KitOf, RelayKit, is_settled
from tests.integration.relay.replicas import promote
from tests.integration.relay.test_gtid import GTID, equals_upstream, held_files, pair, rows
from tests.integration.relay.trickle import trickle_on
from tests.waiting import wait_for

__all__ = ["pair"]  # the fixture

ALWAYS: dict[str, Any] = {"purge": {"interval": 1, "remain_space": 1 << 30}}
"""A purge each second, which wants more space than there is."""


def test_a_former_servers_log_is_purged_once_no_task_needs_it(kit_of: KitOf, pair: tuple[Server, Server]) -> None:
    a, b = pair
    on_a, on_b = kit_of(a), kit_of(b)
    on_a.catch_up(**GTID)
    held = on_a.status().relay
    assert held is not None
    on_b.needs(held)
    a.kill()
    promote(b)
    rows(b, "d", 4)
    b.sql("FLUSH BINARY LOGS")
    wait_for(lambda: is_settled(b))
    rows(b, "d", 5)

    relay = on_b.start(**GTID, **ALWAYS)
    wait_for(lambda: on_b.status().sub_dir.endswith(".000002") and on_b.status().caught_up)
    wait_for(lambda: f"task shop (Stopped) needs {held}" in on_b.log())
    assert held_files(on_b)[0] == (1, held.file), "its task has not crossed over yet"

    now = on_b.status().relay
    assert now is not None
    on_b.needs(now)
    wait_for(lambda: held_files(on_b) == [(2, now.file)])
    directory = RelayDirectory(on_b.root)
    wait_for(lambda: (on_b.root / INDEX).read_text() == f"{directory.latest()}\n")
    assert [path.name for path in on_b.root.iterdir() if path.is_dir()] == [str(directory.latest())]
    relay.stop()

    rows(b, "d", 6)
    for _ in range(2):  # with what relay.meta says, and without it: the set of the former server is not forgotten
        on_b.catch_up(**GTID)
        equals_upstream(on_b, 2)
        status = on_b.status()
        assert status.relay is not None
        assert (status.relay.suffix, status.relay.gtid_set) == (2, on_b.upstream().gtid_set)
        (directory.folder(directory.sub_dirs()[0]) / META).unlink()


def test_purges_that_die_beside_a_relay_that_writes(kit: RelayKit, source: Server, fresh_schema: FreshSchema) -> None:
    """kill -9 ends them: nothing needed is lost, and the relay's next start tidies up."""
    relay = kit.start()
    needed = ""
    with trickle_on(source, fresh_schema(source)):
        for number in range(6):
            wait_for(lambda: len(held_files(kit)) > 4)
            _, needed = held_files(kit)[-2]
            kit.needs(Location(needed, 4))
            killed_while_purging(kit, at_look=(at_look := number % 3 + 1))
            assert needed in [name for _, name in held_files(kit)]
            assert at_look < 3 or held_files(kit)[0] == (1, needed), "it was not killed"
    relay.kill()
    kit.catch_up()

    assert not list(kit.root.glob("*/.*.purged"))
    carried_out(kit.store, kit.source_id, kit.root, PurgeOrder(Inactive()))
    assert held_files(kit)[0] == (1, needed)
    kit.first_file = needed
    assert kit.differences() == []


KILLER = """
import os, signal, sys
from pathlib import Path
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.relay.purge import Inactive
from airflow_provider_dm.engine.relay.purge_files import purge
from airflow_provider_dm.engine.relay.purge import needs_of

url, source, root, at_look = sys.argv[1:]
looks = 0
with MetaStore.open(url) as store:
    def look():
        global looks
        looks += 1
        if looks == int(at_look):
            os.kill(os.getpid(), signal.SIGKILL)
        return needs_of(store.list_subtasks(source=source))
    assert purge(source, Path(root), look, Inactive()).files
"""


def killed_while_purging(kit: RelayKit, *, at_look: int) -> None:
    """A process that purges and is killed when it reads the needs: with nothing hidden yet (1), with everything
    hidden (2), or not at all (3)."""
    arguments = [sys.executable, "-c", KILLER, kit.meta_url, kit.source_id, str(kit.root), str(at_look)]
    ended = subprocess.run(arguments, check=False, timeout=300)
    assert ended.returncode == (0 if at_look == 3 else -signal.SIGKILL)
