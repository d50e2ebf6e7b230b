"""The base of sensors that wait for a state in the metadata DB, in a worker or in the triggerer."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf
from airflow.sdk.exceptions import AirflowException, AirflowSensorTimeout, AirflowSkipException

from airflow_provider_dm.launch.awaited import UNKNOWN, Awaited, Broken, Met, NotYet
from airflow_provider_dm.links.dm_page import DmPageLink, push_dm_page
from airflow_provider_dm.operators.errors import translated

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

    from airflow_provider_dm.operators.inputs import Document
    from airflow_provider_dm.triggers.base import AwaitTrigger

GOAL_KEY: Final = "dm_goal"


class MetadataSensor(BaseSensorOperator):
    """The base of sensors that wait for a state in the metadata DB. Each subclass has its trigger."""

    operator_extra_links: Collection[BaseOperatorLink] = (DmPageLink(),)
    ui_color = "#e6f1f2"
    broken: ClassVar[type[AirflowException]]
    """The exception for a state in which a user has to act first."""

    def __init__(
        self,
        *,
        dm_meta_conn_id: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        end_from_trigger: bool = True,
        poke_interval: timedelta | float = 10,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.dm_meta_conn_id = dm_meta_conn_id
        self.deferrable = deferrable
        self.end_from_trigger = end_from_trigger
        self._name: str | None = None
        self._goal = ""

    def execute(self, context: Context) -> Any:
        """Wait, or defer. Raises AirflowException."""
        with translated():
            push_dm_page(context, **self._page_parameters(context))
        if not self.deferrable:
            return super().execute(context)
        event = self._poke_once(context)
        if not event.is_done:
            self._defer(context)
        return event.xcom_value

    def execute_complete(self, context: Context, event: Mapping[str, Any] | str) -> Any:
        """Handle the trigger's event. Every status except "met" fails the task."""
        if isinstance(event, str):  # `dag.test()` hands over the state in which a trigger has ended its task
            event = {"status": "met" if event == "success" else event, "message": "see the trigger's log"}
        status, message = str(event.get("status")), str(event.get("message"))
        if status == "met":
            return event.get("value")
        if status in ("timeout", "broken"):
            self._before_failure(context, event.get("locks", ()))
            raise (AirflowSensorTimeout if status == "timeout" else self.broken)(message)
        raise AirflowException(f"the trigger ended with status {status!r}: {message}")

    def _once_per_attempt(self, context: Context, key: str, make: Callable[[], str]) -> str:
        """Return the value of `make`, computed once per attempt: a rescheduled sensor reads the stored value, and a
        cleared task computes a new one."""
        if not self.reschedule:
            return make()
        state, attempt = context["task_state_store"], str(context["ti"].try_number)
        of_attempt, _, kept = str(state.get(key) or "").partition(" ")
        if not kept or of_attempt != attempt:
            kept = make()
            state.set(key, f"{attempt} {kept}")
        return kept

    def _goal_of(self, context: Context, given: str | None, source_id: str, conn_id: str | None) -> str:
        """Return a location of a source's binlog as `hooks.relay.goal_text`: the given location, or the end of the
        binlog when this attempt began. Raises InvalidLocation, InvalidInput and the errors of `server_goal`."""
        from airflow_provider_dm.hooks.relay import goal_of, goal_text

        if not self._goal:
            end = partial(end_of_source, conn_id or source_id, source_id)
            self._goal = goal_text(goal_of(given)) if given else self._once_per_attempt(context, GOAL_KEY, end)
            self.log.info("the goal in the binlog of %s is %s", source_id, goal_of(self._goal))
        return self._goal

    def _name_of(self, task: Document, context: Context) -> str:
        """Return the name of the task, whose file is read once, not at each poll. Raises ConfigError, InvalidInput."""
        from airflow_provider_dm.operators.base import files_of
        from airflow_provider_dm.operators.inputs import task_name

        self._name = self._name or task_name(task, files_of(self, context))
        return self._name

    @abstractmethod
    def _page_parameters(self, context: Context) -> dict[str, str]:
        """Return the parameters of the DM page that shows the awaited state."""

    @abstractmethod
    def _trigger(self, context: Context, **common: Any) -> AwaitTrigger:
        """Return the trigger that reads the awaited state, with the arguments in `common`."""

    def _before_failure(self, context: Context, locks: Sequence[Mapping[str, Any]]) -> None:
        """Handle the DDL locks of a state that fails the task."""

    def poke(self, context: Context) -> PokeReturnValue:
        """Poll once. Raises the class's `broken`."""
        from airflow_provider_dm.engine.errors import TransientErrorsLogged
        from airflow_provider_dm.hooks.metadata import DmMetadataHook

        state: Awaited = UNKNOWN
        with translated():
            trigger = self._whole_trigger(context)
            with TransientErrorsLogged(self.log.warning), DmMetadataHook(self.dm_meta_conn_id).get_store() as store:
                state = trigger.state(store)
        match state:
            case Met(value):
                return PokeReturnValue(is_done=True, xcom_value=value)
            case NotYet(why):
                self.log.info("%s", why)
                return PokeReturnValue(is_done=False)
            case Broken(why, locks):
                self._before_failure(context, locks)
                raise self.broken(why)

    def _poke_once(self, context: Context) -> PokeReturnValue:
        """Poll once before deferring. With `soft_fail` or `never_fail` a failure becomes a skip, as in the base class's
        `execute`."""
        try:
            return self.poke(context)
        except AirflowException as error:
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(str(error)) from error
            raise

    def _defer(self, context: Context) -> None:
        """Continue in the triggerer, whose event resumes the task in `execute_complete`."""
        trigger = self._whole_trigger(context)
        self.defer(
            trigger=trigger,
            method_name="execute_complete",
            # A deferral that times out bypasses execute_complete, so the trigger's own deadline has to come first.
            timeout=timedelta(seconds=self.timeout + 2 * trigger.poll_interval + 60),
        )

    def _whole_trigger(self, context: Context) -> AwaitTrigger:
        return self._trigger(
            context,
            dm_meta_conn_id=self.dm_meta_conn_id,
            poll_interval=max(float(self.poke_interval), 1.0),
            deadline=time.time() + self.timeout,
            end_from_trigger=self.end_from_trigger and not self.outlets,
        )


def end_of_source(conn_id: str, source_id: str) -> str:
    """Return the current end of a source's binlog as `hooks.relay.goal_text`.

    Raises InvalidInput and the errors of `hooks.relay.server_goal`.
    """
    from airflow_provider_dm.hooks.relay import goal_text, server_goal
    from airflow_provider_dm.operators.inputs import connection_endpoint

    endpoint = connection_endpoint(conn_id, source_id, f"source {source_id}", "the sensor was given no location")
    return goal_text(server_goal(endpoint))
