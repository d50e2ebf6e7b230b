"""Operators that run the relay of one source, and that stop it.

By default the relay process ends with the task and vice versa. With `deferrable` the relay is an independent process,
and the triggerer watches its row in the metadata DB.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, get_args

from airflow.sdk import conf
from airflow.sdk.exceptions import AirflowException

from airflow_provider_dm.links.dm_page import push_dm_page
from airflow_provider_dm.operators.base import DmOperator, files_of, mask, task_holder
from airflow_provider_dm.operators.errors import translated

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dm.engine.meta.records import RelayStatus
    from airflow_provider_dm.engine.meta.store import MetaStore
    from airflow_provider_dm.engine.mysql.location import Location
    from airflow_provider_dm.engine.relay.health import RelayStart
    from airflow_provider_dm.launch.job import Upstream
    from airflow_provider_dm.launch.watched_relay import WatchedRelay
    from airflow_provider_dm.operators.inputs import Document

RELAY_KILL_SECONDS: Final = 2.0
LOG_EVERY_SECONDS: Final = 60.0
RESTART_SECONDS: Final = 1.0

Until = Literal["stopped", "caught-up"]


class DmRelayOperator(DmOperator):
    """An operator that pulls the binlogs of one source into its relay directory, for as long as the task runs or is
    deferred.

    A relay that crashes is started again, in the same attempt, and continues after the last file. If another relay of
    the source runs already (that of a sync, of `dmctl`, or on another machine), the task watches that relay, and starts
    its own when the other one ends.

    With `deferrable`, the relay is an independent process, which outlives the task's process; a later attempt finds the
    relay and continues to watch it. It ends on request, and when a user marks or clears the deferred task. All attempts
    must run on the machine with the relay directory: give the task a queue that one worker serves.

    :param source: source-id, path of a ``source.yaml`` (relative: to the DAG file), or a dictionary with its keys
    :param until: ``"stopped"`` (by :class:`DmRelayStopOperator`, `RelayLogHook.request_stop` or `dmctl stop-relay`), or
        ``"caught-up"`` (with the end that the source's binlog has when the relay starts)
    :param source_conn_id: Airflow connection of the source; None: ``from`` of its source.yaml, else the connection of
        the same id
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``
    :param deferrable: start the relay and wait in the triggerer, which must reach the metadata DB

    Returns ``{"source", "stage", "location", "caught_up"}``.
    """

    template_fields: Sequence[str] = ("source", "until", "source_conn_id", "dm_meta_conn_id")

    def __init__(
        self,
        *,
        source: Document,
        until: Until = "stopped",
        source_conn_id: str | None = None,
        dm_meta_conn_id: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source = source
        self.until = until
        self.source_conn_id = source_conn_id
        self.dm_meta_conn_id = dm_meta_conn_id
        self.deferrable = deferrable
        self._relay: WatchedRelay | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the relay to its end, or defer. Raises AirflowException (retry), AirflowFailException."""
        from airflow_provider_dm.engine.meta.records import Stage
        from airflow_provider_dm.hooks.metadata import DmMetadataHook
        from airflow_provider_dm.hooks.relay import server_goal

        with translated():
            upstream = self._upstream(context)
            push_dm_page(context, source=upstream.source_id)
            with DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
                # A relay that a user has paused remains paused until a user resumes it.
                if store.relay_desired(upstream.source_id) is not Stage.PAUSED:
                    store.set_relay_desired(upstream.source_id, Stage.RUNNING)
                goal = server_goal(upstream.endpoint) if self.until == "caught-up" else None
                return self._run(context, upstream, store, goal)

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Handle the trigger's event: the end, or a relay to restart. Any other event fails."""
        from airflow_provider_dm.hooks.metadata import DmMetadataHook
        from airflow_provider_dm.hooks.relay import goal_of

        with translated(), DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
            if event.get("status") != "gone":
                return _result_of(event, str(event.get("source")), store)
            self.log.warning("the relay of %s: %s", event["source"], event["message"])
            goal = goal_of(event["goal"]) if event.get("goal") else None
            return self._run(context, self._upstream(context), store, goal, int(event["deaths"]))

    def on_kill(self) -> None:
        """End the relay process, within three seconds. The events that it has received are on disk."""
        if self._relay is not None:
            self._relay.end(RELAY_KILL_SECONDS)

    def _run(
        self, context: Context, upstream: Upstream, store: MetaStore, goal: Location | None, deaths: int = 0
    ) -> dict[str, Any]:
        """Keep a relay running until an event ends the task, and return the result; or defer."""
        source_id = upstream.source_id
        relay = self._relay = self._watched_relay(context, upstream, store, deaths)
        if deaths and (tail := relay.tail()):
            self.log.warning("the end of its log:\n%s", tail)
        try:
            while (life := relay.ensure()) is not None:
                event = self._next_event(relay, life, goal)
                if event["status"] != "gone":
                    return _result_of(event, source_id, store)
                self.log.warning("the relay of %s: %s", source_id, event["message"])
                time.sleep(RESTART_SECONDS)  # a relay that lives and cannot report is found again at once
            if relay.is_ended:
                raise AirflowException(f"the relay of {source_id} was ended with its task; its files are complete")
            return summary(source_id, store.relay_status(source_id))
        finally:
            if not self.deferrable:
                self.on_kill()

    def _next_event(self, relay: WatchedRelay, life: RelayStart, goal: Location | None) -> Mapping[str, Any]:
        """Return the next event that needs an action; with `deferrable` the trigger waits for it."""
        from airflow_provider_dm.engine.errors import TransientErrorsLogged
        from airflow_provider_dm.engine.relay.health import doing
        from airflow_provider_dm.hooks import settings
        from airflow_provider_dm.triggers.relay import next_event

        source_id, log_at = relay.source_id, time.monotonic()
        while True:
            # The metadata DB may be unavailable for a moment: the relay continues without it.
            with TransientErrorsLogged(self.log.warning):
                status, desired = relay.store.relay_status(source_id), relay.store.relay_desired(source_id)
                ours = relay.kept.process is not None
                awaited = None if ours else goal  # ours ends by itself at its goal, and reports that
                if (event := next_event(status, desired, awaited, life, time.time(), ours=ours)) is not None:
                    return event
                if status is not None and time.monotonic() >= log_at:
                    log_at = time.monotonic() + LOG_EVERY_SECONDS
                    self.log.info("the relay of %s: %s", source_id, doing(status))
            if self.deferrable:
                self._defer(relay, life, goal)
            time.sleep(settings.poll_seconds())

    def _defer(self, relay: WatchedRelay, life: RelayStart, goal: Location | None) -> NoReturn:
        from airflow_provider_dm.hooks import settings
        from airflow_provider_dm.hooks.relay import goal_text
        from airflow_provider_dm.triggers.relay import RelayWatchTrigger

        self.log.info("watching the relay of %s from the triggerer", relay.source_id)
        trigger = RelayWatchTrigger(
            source_id=relay.source_id,
            goal=None if goal is None else goal_text(goal),
            stop_on_kill=relay.is_ours(),
            began_at=life.began_at,
            deaths=life.deaths,
            dm_meta_conn_id=self.dm_meta_conn_id,
            poll_interval=settings.poll_seconds(),
        )
        self._relay = None  # from here on the trigger controls it
        self.defer(trigger=trigger, method_name="execute_complete")
        raise AssertionError("defer raises")

    def _watched_relay(self, context: Context, upstream: Upstream, store: MetaStore, deaths: int) -> WatchedRelay:
        from airflow_provider_dm.engine.relay.keeper import KeptRelay
        from airflow_provider_dm.hooks.metadata import DmMetadataHook
        from airflow_provider_dm.launch.relays import relay_spec
        from airflow_provider_dm.launch.secrets import inherited
        from airflow_provider_dm.launch.watched_relay import WatchedRelay

        meta_url = DmMetadataHook(self.dm_meta_conn_id).url()
        launcher_pid = None if self.deferrable else os.getpid()
        spec, secrets = relay_spec(upstream, meta_url, until=self.until, launcher_pid=launcher_pid)
        mask(*secrets.by_name.values())
        log_path = self._log_path(upstream, task_holder(context["ti"]).attempt)
        kept = KeptRelay(spec, {**inherited(), **secrets.by_name}, log_path, deaths=deaths)
        return WatchedRelay(kept, store, secrets.masked)

    def _upstream(self, context: Context) -> Upstream:
        from airflow_provider_dm.hooks import settings
        from airflow_provider_dm.hooks.errors import ArgumentUnusable
        from airflow_provider_dm.launch.job import Upstream
        from airflow_provider_dm.launch.workdir import shared_relay
        from airflow_provider_dm.operators.inputs import read_source, source_endpoint

        if self.until not in get_args(Until):
            raise ArgumentUnusable("until", f"{self.until!r} is not one of {', '.join(get_args(Until))}")
        conn_ids = {self.source: self.source_conn_id} if isinstance(self.source, str) and self.source_conn_id else {}
        config = read_source(self.source, files_of(self, context), conn_ids)
        config.require_supported()
        endpoint = source_endpoint(config, self.source_conn_id)
        # Always the shared directory, also of a source with `enable-relay: false`: this task is that relay.
        directory = shared_relay(settings.configured_work_root(), config.source_id, config.relay_dir)
        return Upstream(config, endpoint, directory)

    def _log_path(self, upstream: Upstream, attempt: str) -> Path:
        from airflow_provider_dm.hooks import settings
        from airflow_provider_dm.launch.workdir import path_name, private_directory

        settings.configured_work_root().mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = private_directory(settings.configured_work_root() / "logs")
        name = f"relay-{path_name(upstream.source_id)}-{path_name(self.task_id)}-{attempt}.log"
        return folder / name


class DmRelayStopOperator(DmOperator):
    """An operator that asks the relay of one or more sources to stop, and waits until it has: the counterpart of
    :class:`DmRelayOperator`.

    Suitable as a teardown: with ``trigger_rule="all_done"`` it ends the relay tasks of a DAG even if other tasks
    failed. The request is valid until :class:`DmRelayOperator` or a sync withdraws it at its start.

    :param source_ids: the sources whose relays are stopped
    :param wait_seconds: how long to wait until the relays report that they have stopped; 0: not at all
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``

    Returns a list with the last status of each relay, in the format of :class:`DmRelayOperator`.
    """

    template_fields: Sequence[str] = ("source_ids", "dm_meta_conn_id")

    def __init__(
        self,
        *,
        source_ids: Sequence[str],
        wait_seconds: float = 60.0,
        dm_meta_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.source_ids = source_ids
        self.wait_seconds = wait_seconds
        self.dm_meta_conn_id = dm_meta_conn_id

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Ask the relays to stop and wait for them. Raises AirflowException when a relay does not stop in time."""
        from airflow_provider_dm.engine.meta.records import Stage
        from airflow_provider_dm.hooks.metadata import DmMetadataHook
        from airflow_provider_dm.operators.arguments import texts

        with translated(), DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
            source_ids = texts(self.source_ids, "source_ids")
            push_dm_page(context, source=source_ids)
            for source_id in source_ids:
                store.set_relay_desired(source_id, Stage.STOPPED)
            deadline = time.monotonic() + self.wait_seconds
            while self.wait_seconds and (
                running := [one for one in source_ids if _is_shared_and_alive(store.relay_status(one))]
            ):
                if time.monotonic() > deadline:
                    raise AirflowException(
                        f"relays still run {self.wait_seconds} s after they were asked to stop: {running}"
                    )
                time.sleep(0.5)
            return [summary(source_id, store.relay_status(source_id)) for source_id in source_ids]


def _is_shared_and_alive(status: RelayStatus | None) -> bool:
    """Return True if the source's shared relay runs. A relay of a single task ignores requests to the shared relay."""
    from airflow_provider_dm.engine.relay.health import is_alive

    return status is not None and not status.task and is_alive(status)


def summary(source_id: str, status: RelayStatus | None) -> dict[str, Any]:
    """Return a relay's status as a small dictionary for XCom."""
    if status is None:
        return {"source": source_id, "stage": None, "location": None, "caught_up": False}
    return {
        "source": source_id,
        "stage": status.stage.value,
        "location": str(status.relay) if status.relay else None,
        "caught_up": status.caught_up,
    }


def _result_of(event: Mapping[str, Any], source_id: str, store: MetaStore) -> dict[str, Any]:
    """Return the task's result for an event that ends the task. Raises RelayFailed, AirflowException."""
    from airflow_provider_dm.engine.errors import ReportedError
    from airflow_provider_dm.launch.errors import RelayFailed

    match event.get("status"):
        case "stopped" | "caught-up":
            return summary(source_id, store.relay_status(source_id))
        case "failed":
            raise RelayFailed(source_id, ReportedError.read(event["error"]))
        case unknown:
            raise AirflowException(f"the trigger ended with status {unknown!r}: {event.get('message')}")
