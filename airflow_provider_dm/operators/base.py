"""The base of the operators of a DM task: their arguments, and running one Spark app to its end.

Constructors only store. Everything that is slow or can fail happens in `execute`: reading files, reading connections,
starting processes. Secrets are read there too, so they are in no rendered field.

The lease's holder is the task instance (DAG, run, task, map index): a retry has the same identity, takes over the lease
immediately, and its higher generation fences processes that the previous attempt left running.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException

from airflow_provider_dm.engine.errors import NotInstalled
from airflow_provider_dm.links.dm_page import DmPageLink, push_dm_page
from airflow_provider_dm.links.spark_ui import SparkUiLink, push_spark_ui
from airflow_provider_dm.links.task_instance import TaskInstanceRef
from airflow_provider_dm.operators.errors import as_airflow, translated

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

    from airflow_provider_dm.engine.processes import Holder
    from airflow_provider_dm.hooks.spark import DmSparkSubmitHook
    from airflow_provider_dm.launch.inputs import Inputs
    from airflow_provider_dm.launch.job import AppName, Job
    from airflow_provider_dm.launch.submit import AppOutcome
    from airflow_provider_dm.launch.supervisor import Supervisor
    from airflow_provider_dm.operators.inputs import Document, Files
    from airflow_provider_dm.operators.lineage import TableFlow

RUN_ID_KEY: Final = "dm_run_id"
"""XCom with the run's id in the metadata DB, pushed before the app starts."""


class DmOperator(BaseOperator):
    """Base of all operators of this package: their task instances have a link to the DM page."""

    operator_extra_links: Collection[BaseOperatorLink] = (DmPageLink(),)
    ui_color = "#d9ecf2"


class DmTaskOperator(DmOperator):
    """Base of the operators that work on a DM task."""

    template_fields: Sequence[str] = ("task", "sources", "source_conn_ids", "target_conn_id", "dm_meta_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"task": "json", "sources": "json"}

    def __init__(
        self,
        *,
        task: Document,
        sources: Sequence[Document] | None = None,
        source_conn_ids: Mapping[str, str] | None = None,
        target_conn_id: str | None = None,
        dm_meta_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.task = task
        self.sources = sources
        self.source_conn_ids = source_conn_ids
        self.target_conn_id = target_conn_id
        self.dm_meta_conn_id = dm_meta_conn_id
        self._inputs: Inputs | None = None

    def read_inputs(self, context: Context) -> Inputs:
        """Return the arguments as the engine's values. Raises the errors of `inputs.read_inputs` and `with_starts`."""
        from airflow_provider_dm.launch.starts import with_starts

        return with_starts(self._read(context))

    def _read(self, context: Context) -> Inputs:
        """Return the arguments without connecting to a server. Raises the errors of `operators.inputs.read_inputs`."""
        from airflow_provider_dm.operators.inputs import read_inputs

        inputs = self._inputs = read_inputs(
            task=self.task,
            sources=self.sources,
            source_conn_ids=self.source_conn_ids,
            target_conn_id=self.target_conn_id,
            files=files_of(self, context),
        )
        mask(*(endpoint.password.reveal() for endpoint in (*inputs.source_endpoints, inputs.target)))
        return inputs


class DmSparkAppOperator(DmTaskOperator):
    """Base of the operators that run one of this package's Spark apps and wait for its end.

    Killing the task ends the Spark driver within three seconds; if the task's own process is killed, the driver
    notices that and ends. The result is a small dictionary, pushed as XCom.
    """

    template_fields: Sequence[str] = (
        *DmTaskOperator.template_fields,
        "spark_conn_id",
        "spark_conf",
        "driver_memory",
    )
    operator_extra_links = (DmPageLink(), SparkUiLink())
    app: ClassVar[AppName]
    until: str = "caught-up"
    """The end of the app's work."""
    writes: ClassVar[bool] = True
    """True if the app writes to the target: it then holds its sources exclusively, and each needs a running relay."""

    def __init__(
        self,
        *,
        task: Document,
        sources: Sequence[Document] | None = None,
        source_conn_ids: Mapping[str, str] | None = None,
        target_conn_id: str | None = None,
        dm_meta_conn_id: str | None = None,
        spark_conn_id: str = "spark_default",
        spark_conf: Mapping[str, str] | None = None,
        driver_memory: str = "1g",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            task=task,
            sources=sources,
            source_conn_ids=source_conn_ids,
            target_conn_id=target_conn_id,
            dm_meta_conn_id=dm_meta_conn_id,
            **kwargs,
        )
        self.spark_conn_id = spark_conn_id
        self.spark_conf = spark_conf
        self.driver_memory = driver_memory

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the app to its end; return its result with the run's id. Raises AirflowException,
        AirflowFailException."""
        with translated(), self._supervisor(context) as supervisor:
            return self._run(context, supervisor)

    def on_kill(self) -> None:
        """End the Spark app and everything it started, within three seconds."""
        if "hook" in self.__dict__:
            self.hook.on_kill()

    @cached_property
    def hook(self) -> DmSparkSubmitHook:
        """The Spark connection."""
        from airflow_provider_dm.operators import arguments

        try:
            from airflow_provider_dm.hooks.spark import DmSparkSubmitHook
        except ImportError as error:
            raise NotInstalled(
                f"Airflow's Spark provider cannot be imported ({error}).",
                "Install it: `pip install apache-airflow-providers-apache-spark`, and repair pyspark afterwards: "
                "see docs/how-to/repair-pyspark.md.",
            ) from error
        return DmSparkSubmitHook(
            conn_id=self.spark_conn_id or DmSparkSubmitHook.default_conn_name,
            conf=arguments.spark_settings(self.spark_conf),
            driver_memory=arguments.memory(self.driver_memory),
        )

    def accept(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return the task's result for the result of the finished app. Raises DmError."""
        return result

    # One run

    @contextmanager
    def _supervisor(self, context: Context) -> Iterator[Supervisor]:
        """Yield the task for a run, after all checks that are possible before it."""
        from airflow_provider_dm.engine.meta.records import Stage
        from airflow_provider_dm.hooks import settings
        from airflow_provider_dm.hooks.metadata import DmMetadataHook
        from airflow_provider_dm.launch.supervisor import Supervisor
        from airflow_provider_dm.launch.workdir import TaskDir

        inputs, until, spark = self.read_inputs(context), self._until(), self.hook.settings()
        metadata = DmMetadataHook(self.dm_meta_conn_id)
        with metadata.get_store() as store:
            supervisor = Supervisor.prepared(
                inputs,
                directory=TaskDir.of(inputs.task.name, settings.configured_work_root()),
                until=until,
                store=store,
                meta_url=metadata.url(),
                holder=task_holder(context["ti"]),
                settings=spark,
            )
            if self.writes:
                # The first attempt withdraws a stop request, a retry obeys it. Only a user ends a pause.
                first = supervisor.holder.attempt == "1"
                supervisor.take(withdrawn=(Stage.STOPPED,) if first else ())
            yield supervisor

    def _until(self) -> str:
        from airflow_provider_dm.launch.job import checked_until
        from airflow_provider_dm.operators.arguments import text_argument

        return checked_until(text_argument(self.until, "until"))

    def _job(self, context: Context, supervisor: Supervisor) -> tuple[Job, Path]:
        """Return the app's job and the directory of its run."""
        from airflow_provider_dm.hooks import settings
        from airflow_provider_dm.launch.workdir import TaskDir

        job = supervisor.job(self.app, self._until())
        mask(*job.secrets.by_name.values())
        self._push(context, supervisor, job.spec.run_id)
        if supervisor.settings.has_ui:
            push_spark_ui(context, job.spec.run_id)
        directory = TaskDir.of(job.spec.task.name, settings.configured_work_root())
        directory.forget_old_runs()
        return job, directory.run(job.spec.run_id)

    def _push(self, context: Context, supervisor: Supervisor, run_id: str) -> None:
        context["ti"].xcom_push(key=RUN_ID_KEY, value=run_id)
        push_dm_page(context, task=supervisor.inputs.task.name)

    def _run(self, context: Context, supervisor: Supervisor) -> dict[str, Any]:
        from airflow_provider_dm.engine.meta.records import Stage
        from airflow_provider_dm.launch.errors import SparkAppFailed
        from airflow_provider_dm.launch.progress_report import ReportOutput
        from airflow_provider_dm.launch.relays import Relays
        from airflow_provider_dm.launch.supervisor import watch

        job, run_dir = self._job(context, supervisor)
        log_line = partial(self.log.info, "%s")
        needed = supervisor.upstreams if self.writes else ()
        with Relays(needed, meta_url=supervisor.meta_url, log_dir=run_dir) as relays:
            app = self.hook.start(job, run_dir=run_dir)
            try:
                outcome = watch(app, relays, supervisor.store, ReportOutput(log_line, log_line))
            except SparkAppFailed:
                for line in ("::group::The end of Spark's output", *app.tail().splitlines(), "::endgroup::"):
                    log_line(line)
                raise
            finally:
                self.hook.end()
        # A fulfilled stop request, or the end: clearing the task should run it again.
        if not outcome.finished and not self.hook.stop_requested:
            supervisor.withdraw((Stage.STOPPED,))
        result = self._result_of(context, outcome, job.spec.run_id)
        if self.app == "incremental_sync":
            supervisor.finish()
        return result

    def _result_of(self, context: Context, outcome: AppOutcome, run_id: str) -> dict[str, Any]:
        """Return the task's result for a run that has ended, in either mode.

        Raises AirflowException, AirflowFailException, and the errors of `accept`.
        """
        from airflow_provider_dm.hooks.errors import StoppedOnRequest

        if outcome.finished:
            result = self.accept({**outcome.result, RUN_ID_KEY: run_id})
            self._emit_assets(context, run_id)
            return result
        if "hook" in self.__dict__ and self.hook.stop_requested:
            raise AirflowException(f"{self.app} was ended with its task; its progress is saved")
        raise as_airflow(StoppedOnRequest(self.app))

    # Lineage

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return source and target tables as OpenLineage's inputs and outputs; OpenLineage's listener asks for it."""
        from airflow_provider_dm.operators.lineage import openlineage_of

        return openlineage_of(self._flows(task_instance)) if self.writes else None

    def _emit_assets(self, context: Context, run_id: str) -> None:
        from airflow_provider_dm.operators.lineage import aliases, emit_assets

        if self.writes and aliases(self.outlets):
            emit_assets(context, self.outlets, self._flows(context["ti"]), {RUN_ID_KEY: run_id})

    def _flows(self, task_instance: Any) -> Sequence[TableFlow]:
        from airflow_provider_dm.operators.lineage import table_flows

        # After a deferral, this process has not read the arguments.
        return table_flows(self._inputs or self._read(task_instance.get_template_context()))


def task_holder(ti: Any) -> Holder:
    """Return the task instance as the holder of leases; the attempt is its try number."""
    from airflow_provider_dm.engine.processes import Holder

    index = ti.map_index if ti.map_index is not None else -1
    identity = TaskInstanceRef(ti.dag_id, ti.run_id, ti.task_id, index).identity
    return Holder(identity=identity, attempt=str(ti.try_number), host=socket.gethostname())


def folder_of(operator: BaseOperator) -> Path:
    """Return the folder of the operator's DAG file, to which its relative paths refer on any worker."""
    dag = operator.get_dag()
    return Path(dag.fileloc).parent if dag is not None and dag.fileloc else Path.cwd()


def files_of(operator: BaseOperator, context: Context) -> Files:
    """Return how the operator's YAML files are read: relative to its DAG file, as Jinja templates with the context.

    They are no `template_ext` files: Airflow would store their text, and passwords in it, with the DAG.
    """
    from airflow_provider_dm.operators.inputs import Files

    dag = operator.get_dag()
    env = dag.get_template_env(force_sandboxed=True) if dag is not None else operator.get_template_env()
    return Files(folder_of(operator), lambda text: str(env.from_string(text).render(**context)))


def mask(*secrets: str) -> None:
    """Register these values with Airflow, which masks them in logs and in the UI."""
    from airflow.sdk.log import mask_secret

    for secret in secrets:
        if secret:
            mask_secret(secret)
