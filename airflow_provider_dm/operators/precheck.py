"""An operator that finds the causes for which a migration would fail, before anything is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_dm.links.dm_page import push_dm_page
from airflow_provider_dm.operators.base import DmTaskOperator
from airflow_provider_dm.operators.errors import translated

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_dm.engine.precheck.result import PrecheckReport


class DmPrecheckOperator(DmTaskOperator):
    """An operator that checks logins, grants, binlog settings and the tables of both sides, and changes nothing.

    Runs in the task's own process, without Spark. If checks fail, the task fails without a retry, and the
    error lists all of them with their remedies; warnings are logged.

    :param task: path of a DM ``task.yaml`` (relative: to the DAG file), or a dictionary with its keys
    :param sources: source-ids, paths of ``source.yaml`` files, or dictionaries with their keys; None: all sources of
        the task
    :param source_conn_ids: source-id -> Airflow connection, for sources whose connection has another id
    :param target_conn_id: Airflow connection of the target; None: ``target-database`` of the task
    :param dm_meta_conn_id: Airflow connection of the metadata DB; None: ``[dm] metadata_conn_id``

    Returns ``{"passed": true, "task", "results": [{"name", "where", "state", "message", "remedy"}]}``.
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the precheck and return its results. Raises AirflowFailException with every finding and its remedy."""
        from airflow_provider_dm.engine.precheck.run import run_precheck
        from airflow_provider_dm.hooks.settings import configured_work_root

        with translated():
            inputs = self.read_inputs(context)
            push_dm_page(context, task=inputs.task.name)
            return self._result_of(
                run_precheck(inputs.task, inputs.pairs, inputs.target, inputs.relay_dirs(configured_work_root()))
            )

    def _result_of(self, report: PrecheckReport) -> dict[str, Any]:
        from airflow_provider_dm.engine.precheck.errors import PrecheckFailed
        from airflow_provider_dm.engine.precheck.result import State

        passed = [result for result in report.results if result.state is State.OK]
        for line in (f"::group::{len(passed)} checks passed", *passed, "::endgroup::"):
            self.log.info("%s", line)
        for result in report.results:
            if result.state is not State.OK:
                self.log.warning("%s", result)
        try:
            report.require_passed()
        except PrecheckFailed as error:
            remedies = "\n".join(map(str, report.failures))
            raise AirflowFailException(f"{error}\n{remedies}") from None
        return report.to_json()
