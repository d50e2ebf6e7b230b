"""The incremental sync of a DM task: applies the sources' binlogs to the target exactly once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import conf
from airflow.sdk.exceptions import AirflowException

from airflow_provider_dm.operators.base import RUN_ID_KEY, DmSparkAppOperator
from airflow_provider_dm.operators.errors import translated

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dm.launch.detached import Launcher
    from airflow_provider_dm.launch.supervisor import Supervisor
    from airflow_provider_dm.operators.inputs import Document


class DmIncrementalSyncOperator(DmSparkAppOperator):
    """An operator that applies the changes of a task's sources to its target, from the checkpoint on.

    The checkpoint is in the target and moves with the rows; there is nothing to configure for a restart. The operator
    also runs a relay for every source whose relay log no other process writes (see
    :class:`~airflow_provider_dm.operators.relay.DmRelayOperator`).

    :param task: path of a DM ``task.yaml`` (relative: to the DAG file), or a dictionary with its keys
    :param until: ``"caught-up"``: up to the end of each source's binlog at the start of the run; ``"forever"``; or a
        location ``FILE:POSITION``
    :param sources: source-ids, paths of ``source.yaml`` files, or dictionaries with their keys; None: all sources of
        the task
    :param source_conn_ids: source-id -> Airflow connection, for sources whose connection has another id
    :param target_conn_id: Airflow connection of the target; None: ``target-database`` of the task
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``
    :param spark_conn_id: Airflow connection of type ``spark``; if it does not exist, ``[dm] spark_master`` is the
        master
    :param spark_conf: Spark configuration, which overrides the provider's own; it must not hold secrets
    :param driver_memory: memory of the Spark driver, as Spark writes sizes
    :param deferrable: start the sync as an independent process and wait in the triggerer, which must reach the metadata
        DB

    With ``deferrable`` the sync is an independent process and uses no worker slot. It ends at its goal, by an error, on
    a user's request, or when the deferred task is marked or cleared. After ``execution_timeout`` the sync is asked to
    stop, and the task fails. If the machine or the launcher dies, the attempt fails and the next attempt takes over, so
    set ``retries`` and a ``queue`` that one worker serves.

    A pause by a user remains in force across attempts: the sync waits until a user resumes it.

    If nothing is left except DDL that other shards of a merged table have not executed yet, the task succeeds with the
    status ``waiting for lock``. Rows are held back then, and the next run continues;
    :class:`~airflow_provider_dm.sensors.shard_ddl.ShardDdlLockSensor` waits until no rows are held back.

    An ``AssetAlias`` among the ``outlets`` gets an event of the asset of each target table, ``mysql://HOST:PORT/SCHEMA/
    TABLE``, with its source tables; OpenLineage gets the same tables as inputs and outputs.

    Returns ``{"status", "changes_applied", "transactions", "seconds", "unresolved_groups", "sources": {source-id:
    {"location", …}}, "dm_run_id"}``; ``status`` is ``finished`` or ``waiting for lock``.
    """

    app = "incremental_sync"
    template_fields: Sequence[str] = (*DmSparkAppOperator.template_fields, "until")

    def __init__(
        self,
        *,
        task: Document,
        until: str = "caught-up",
        sources: Sequence[Document] | None = None,
        source_conn_ids: Mapping[str, str] | None = None,
        target_conn_id: str | None = None,
        dm_meta_conn_id: str | None = None,
        spark_conn_id: str = "spark_default",
        spark_conf: Mapping[str, str] | None = None,
        driver_memory: str = "1g",
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(
            task=task,
            sources=sources,
            source_conn_ids=source_conn_ids,
            target_conn_id=target_conn_id,
            dm_meta_conn_id=dm_meta_conn_id,
            spark_conn_id=spark_conn_id,
            spark_conf=spark_conf,
            driver_memory=driver_memory,
            **kwargs,
        )
        self.until = until
        self.deferrable = deferrable
        self._launcher: Launcher | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the sync to its end, or defer. Raises AirflowException (retry), AirflowFailException."""
        with translated(), self._supervisor(context) as supervisor:
            if (idle := supervisor.idle(self._until())) is not None:
                run_id, result = idle
                self._push(context, supervisor, run_id)
                self._show(result)
                return {**result, RUN_ID_KEY: run_id}
            if self.deferrable:
                self._launch_and_defer(context, supervisor)
            return self._run(context, supervisor)

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of the run that the trigger has watched. Raises AirflowException, AirflowFailException."""
        from airflow_provider_dm.hooks.metadata import DmMetadataHook
        from airflow_provider_dm.launch.errors import RunLost
        from airflow_provider_dm.launch.run_state import run_end
        from airflow_provider_dm.launch.submit import AppOutcome

        run_id = str(event.get("run_id"))
        with translated():
            match event.get("status"):
                case "ended":
                    with DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
                        run = store.get_run(run_id)
                    outcome = run_end(run_id, self.app, run, launcher_ended=True, waited_seconds=0.0)
                    if not isinstance(outcome, AppOutcome):
                        raise outcome or RunLost(self.app, run_id, "it is still running")
                    self._show(outcome.result)
                    self._read(context)
                    return self._result_of(context, outcome, run_id)
                case "gone":
                    raise RunLost(self.app, run_id, str(event.get("message")))
                case "timeout":
                    raise AirflowException(f"{self.app} (run {run_id}) did not end in time; its progress is saved")
                case unknown:
                    raise AirflowException(f"the trigger ended with status {unknown!r}: {event.get('message')}")

    def on_kill(self) -> None:
        """End the started processes within three seconds, except a launcher that the trigger watches."""
        super().on_kill()
        if self._launcher is not None:
            self._launcher.kill()

    def _launch_and_defer(self, context: Context, supervisor: Supervisor) -> NoReturn:
        from airflow_provider_dm.hooks import settings
        from airflow_provider_dm.launch.detached import Launcher, wait_for_predecessor
        from airflow_provider_dm.triggers.run import RunWatchTrigger

        task, holder = supervisor.inputs.task.name, supervisor.holder
        wait_for_predecessor(supervisor.store, task, supervisor.source_ids, holder.identity)
        job, run_dir = self._job(context, supervisor)
        launcher = self._launcher = Launcher.start(
            job, supervisor.upstreams, run_dir=run_dir, settings=supervisor.settings
        )
        self.log.info("run %s continues without this process; its log is %s", job.spec.run_id, launcher.log_path)
        limit, now = self.execution_timeout, time.time()
        trigger = RunWatchTrigger(
            task_name=task,
            sources=supervisor.source_ids,
            app=self.app,
            run_id=job.spec.run_id,
            launcher=launcher.process,
            launched_at=now,
            deadline=None if limit is None else now + limit.total_seconds(),
            dm_meta_conn_id=self.dm_meta_conn_id,
            poll_interval=settings.poll_seconds(),
        )
        self._launcher = None  # the trigger now stops the launcher, so on_kill must not
        self.defer(trigger=trigger, method_name="execute_complete")
        raise AssertionError("defer raises")

    def _show(self, result: Mapping[str, Any]) -> None:
        from airflow_provider_dm.launch.progress_report import closing_table

        for line in closing_table(self.app, result) if result else ():
            self.log.info("%s", line)

    def accept(self, result: dict[str, Any]) -> dict[str, Any]:
        """Log the merged tables with held-back rows."""
        for source, groups in result.get("unresolved_groups", {}).items():
            for group in groups:
                why = f"waits {group['waits']}" if group["waits"] else "they are applied now"
                self.log.warning(
                    "%s: source %s holds back rows of %s (%s)", result["status"], source, group["target"], why
                )
        return result
