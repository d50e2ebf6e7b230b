"""Operators that run the relay of one source, and that stop it.

By default the relay process ends with the task and vice versa. With `deferrable` the relay is an independent process,
and the triggerer watches its row in the metadata DB.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
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
    from airflow_provider_dm.engine.relay.keeper import KeptRelay
    from airflow_provider_dm.engine.relay.spec import RelaySpec
    from airflow_provider_dm.launch.job import Upstream
    from airflow_provider_dm.launch.relay_detached import DetachedRelay
    from airflow_provider_dm.operators.inputs import Document

RELAY_KILL_SECONDS: Final = 2.0
LOG_EVERY_SECONDS: Final = 60.0

Until = Literal["stopped", "caught-up"]


class DmRelayOperator(DmOperator):
    """An operator that pulls the binlogs of one source into its relay directory, for as long as the task runs or is
    deferred.

    Give the task retries: if the relay crashes, the task fails, and the next attempt continues after the last file. If
    another relay already writes the directory (that of a sync, or of `dmctl`), the task waits until
    that relay ends, and takes over.

    With `deferrable`, the relay is an independent process, which outlives the task's process; a later attempt finds the
    relay and continues to watch it. A relay that crashes is started again on a worker, in the same attempt. It ends on
    request, and when a user marks or clears the deferred task. All attempts must run on the machine with the relay
    directory: give the task a queue that one worker serves.

    :param source: source-id, path of a ``source.yaml`` (relative: to the DAG file), or a dictionary with its keys (str
        | dict, required, templated)
    :param until: ``"stopped"`` (by :class:`DmRelayStopOperator`, `RelayLogHook.request_stop` or `dmctl stop-relay`), or
        ``"caught-up"`` (with the end that the source's binlog has when the relay starts) (Until, default 'stopped',
        templated)
    :param source_conn_id: Airflow connection of the source; None: ``from`` of its source.yaml, else the connection of
        the same id (str | None, default None, templated)
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id`` (str | None, default
        None, templated)
    :param deferrable: start the relay and wait in the triggerer, which must reach the metadata DB (bool, default
        [operators] default_deferrable)

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
        self._kept: KeptRelay | None = None
        self._detached: DetachedRelay | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the relay to its end, or defer. Raises AirflowException (retry), AirflowFailException."""
        from airflow_provider_dm.engine.meta.records import Stage
        from airflow_provider_dm.hooks.metadata import DmMetadataHook
        from airflow_provider_dm.hooks.relay import server_goal

        with translated():
            upstream = self._upstream(context)
            push_dm_page(context, source=upstream.source_id)
            attempt = task_holder(context["ti"]).attempt
            with DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
                # A relay that a user has paused remains paused until a user resumes it.
                if store.relay_desired(upstream.source_id) is not Stage.PAUSED:
                    store.set_relay_desired(upstream.source_id, Stage.RUNNING)
                log_path = self._log_path(upstream, attempt)
                if self.deferrable:
                    goal = server_goal(upstream.endpoint) if self.until == "caught-up" else None
                    return self._start_or_defer(upstream, store, log_path, goal)
                try:
                    self._keep(upstream, store, log_path)
                finally:
                    self._end_process()
                return summary(upstream.source_id, store.relay_status(upstream.source_id))

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Handle the trigger's event: the end, or a relay to restart. Any other event fails."""
        from airflow_provider_dm.engine.errors import ReportedError
        from airflow_provider_dm.hooks.metadata import DmMetadataHook
        from airflow_provider_dm.hooks.relay import goal_of
        from airflow_provider_dm.launch.errors import RelayFailed

        with translated(), DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
            source_id = str(event.get("source"))
            match event.get("status"):
                case "stopped" | "caught-up":
                    return summary(source_id, store.relay_status(source_id))
                case "failed":
                    raise RelayFailed(source_id, ReportedError.read(event["error"]))
                case "gone":
                    self.log.warning("the relay of %s has ended: %s; starting it again", source_id, event["message"])
                    upstream = self._upstream(context)
                    log_path = self._log_path(upstream, task_holder(context["ti"]).attempt)
                    goal = goal_of(event["goal"]) if event.get("goal") else None
                    return self._start_or_defer(upstream, store, log_path, goal, deaths=int(event["deaths"]))
                case unknown:
                    raise AirflowException(f"the trigger ended with status {unknown!r}: {event.get('message')}")

    def on_kill(self) -> None:
        """End the relay process, within three seconds. The events that it has received are on disk."""
        self._end_process()
        detached, self._detached = self._detached, None
        if detached is not None:
            self.log.info("ending the relay of %s", detached.source_id)
            detached.end(RELAY_KILL_SECONDS)

    # With `deferrable`: an independent process, which the triggerer watches

    def _start_or_defer(
        self, upstream: Upstream, store: MetaStore, log_path: Path, goal: Location | None, deaths: int = 0
    ) -> dict[str, Any]:
        """Return the result if the relay has already ended as requested; else defer, while it continues."""
        from airflow_provider_dm.hooks.relay import progress_to
        from airflow_provider_dm.launch.awaited import Met
        from airflow_provider_dm.launch.relay_detached import DetachedRelay

        spec, environment, masked = self._spec(upstream, launcher_pid=None)
        relay = self._detached = DetachedRelay(spec, environment, store, log_path, masked)
        if deaths and (tail := relay.tail()):
            self.log.warning("the end of its log:\n%s", tail)
        event = relay.ensure(deaths)
        status = store.relay_status(upstream.source_id)
        caught_up = goal is not None and isinstance(progress_to(status, goal), Met)
        mine = relay.is_ours()
        self._detached = None  # from here on the trigger controls it
        relay.detach()
        if event is not None and not caught_up:
            self._defer(upstream.source_id, event, goal, mine=mine)
        return summary(upstream.source_id, status)

    def _defer(self, source_id: str, life: RelayStart, goal: Location | None, *, mine: bool) -> NoReturn:
        from airflow_provider_dm.hooks import settings
        from airflow_provider_dm.hooks.relay import goal_text
        from airflow_provider_dm.triggers.relay import RelayWatchTrigger

        self.log.info("watching the relay of %s from the triggerer", source_id)
        self.defer(
            trigger=RelayWatchTrigger(
                source_id=source_id,
                goal=None if goal is None else goal_text(goal),
                stop_on_kill=mine,
                began_at=life.began_at,
                deaths=life.deaths,
                dm_meta_conn_id=self.dm_meta_conn_id,
                poll_interval=settings.poll_seconds(),
            ),
            method_name="execute_complete",
        )
        raise AssertionError("defer raises")

    # Without `deferrable`: a process that ends with the task

    def _end_process(self) -> None:
        if self._kept is not None and self._kept.process is not None:
            self.log.info("ending relay process %d", self._kept.process.pid)
            self._kept.stop(RELAY_KILL_SECONDS)

    def _keep(self, upstream: Upstream, store: MetaStore, log_path: Path) -> None:
        """Run the relay until it, or another relay, has reached the goal or was stopped. Raises DmError,
        AirflowException."""
        from airflow_provider_dm.engine.errors import TransientErrorsLogged
        from airflow_provider_dm.engine.relay.keeper import EndedByCrash, EndedByError, KeptRelay
        from airflow_provider_dm.hooks import settings
        from airflow_provider_dm.launch.errors import RelayFailed
        from airflow_provider_dm.launch.relays import prepare_shared_relay

        source_id, log_at = upstream.source_id, time.monotonic()
        spec, environment, _ = self._spec(upstream, launcher_pid=os.getpid())
        prepare_shared_relay(upstream.config, upstream.relay_dir)
        kept = self._kept = KeptRelay(spec, environment, log_path, deaths_allowed=0)  # Airflow's retries start another
        while (end := kept.check()) is None:
            # The metadata DB may be unavailable for a moment: the relay continues without it.
            with TransientErrorsLogged(self.log.warning):
                if kept.holder is not None and self._is_done_by_another(source_id, store):
                    return
                if time.monotonic() >= log_at:
                    log_at = time.monotonic() + LOG_EVERY_SECONDS
                    self.log.info("relay of %s: %s", source_id, status_line(store.relay_status(source_id)))
            kept.wait(settings.poll_seconds())
        match end:
            case EndedByError(error):
                raise RelayFailed(source_id, error)
            case EndedByCrash(code):
                raise AirflowException(f"the relay of {source_id} died with exit code {code}; see {log_path}")

    def _is_done_by_another(self, source_id: str, store: MetaStore) -> bool:
        """Return True if the relay for which this one is the standby has reached the task's goal."""
        from airflow_provider_dm.engine.meta.records import Stage

        status = store.relay_status(source_id)
        stopped = store.relay_desired(source_id) is Stage.STOPPED
        return stopped or (self.until == "caught-up" and status is not None and status.caught_up)

    # With and without `deferrable`

    def _spec(
        self, upstream: Upstream, *, launcher_pid: int | None
    ) -> tuple[RelaySpec, Mapping[str, str], Callable[[str], str]]:
        """Return the relay's input, its environment, and a function that masks its secrets in a text."""
        from airflow_provider_dm.hooks.metadata import DmMetadataHook
        from airflow_provider_dm.launch.relays import relay_spec
        from airflow_provider_dm.launch.secrets import inherited

        meta_url = DmMetadataHook(self.dm_meta_conn_id).url()
        spec, secrets = relay_spec(upstream, meta_url, until=self.until, launcher_pid=launcher_pid)
        mask(*secrets.by_name.values())
        return spec, {**inherited(), **secrets.by_name}, secrets.masked

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

    :param source_ids: the sources whose relays are stopped (list[str], required, templated)
    :param wait_seconds: how long to wait until the relays report that they have stopped; 0: not at all (float, default
        60.0)
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id`` (str | None, default
        None, templated)

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


def status_line(status: RelayStatus | None) -> str:
    """Return a relay's status as a log line."""
    if status is None:
        return "it has not reported yet"
    from airflow_provider_dm.engine.errors import ReportedError

    parts = [
        status.stage.value,
        f"at {status.relay}" if status.relay else "",
        "caught up" if status.caught_up else "",
        str(ReportedError.read(status.error)) if status.error else "",
    ]
    return ", ".join(filter(None, parts))
