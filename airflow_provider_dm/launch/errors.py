"""The errors of launching apps, relays and programs, and of orders to a task."""

from __future__ import annotations

from airflow_provider_dm.engine.errors import DmError, Reaction, ReportedError


class AirflowRefuses(DmError):
    """Airflow's program failed; `output` is the end of its output."""

    command: str
    output: str

    code = "DM-1317"
    what = "`airflow {command}` failed: {output}"
    hint = "Check AIRFLOW_HOME, `airflow db check` and `airflow db check-migrations`, then run the same again."


class PurgeNotReported(DmError):
    source: str
    host: str
    seconds: float

    code = "DM-4072"
    reaction = Reaction.RETRY
    what = "the relay of {source} on {host} has not reported the purge within {seconds:.0f} s; the order is withdrawn."
    hint = "Read the relay's log there, then purge again. Files that it has removed were not needed by any task."


class TaskRunsAlready(DmError):
    task: str
    held_by: str

    code = "DM-9011"
    what = "task {task} is already running on this machine: {held_by}."
    hint = "Wait for it or stop it; a stopped task continues at its checkpoint."


class SparkAppFailed(DmError):
    app: str
    run_id: str
    reported: ReportedError

    what = "{app} stopped: {reported.message}"


class TaskTakenOver(DmError):
    """A newer run holds the generation; this run cannot write any more."""

    app: str
    run_id: str

    code = "DM-9021"
    reaction = Reaction.FENCED
    what = "{app} (run {run_id}) ended because another run has taken the task over."
    hint = "Nothing was written twice. Only one run of a task can be active."


class RunLost(DmError):
    """The app was killed, ran out of memory, failed within Spark, or its machine no longer reports."""

    app: str
    run_id: str
    reason: str
    log: str = ""

    code = "DM-9024"
    reaction = Reaction.RETRY
    what = "{app} (run {run_id}) ended without a result: {reason}."
    hint = "Run it again: it continues from what is committed in the target."

    def happened(self) -> str:
        return super().happened() + f" The end of its log:\n{self.log}\n" * bool(self.log)


class RelayFailed(DmError):
    """A relay has ended with the error that follows, or could not fulfil a request."""

    source: str
    reported: ReportedError
    outcome: str = "stopped"

    what = "the relay of source {source} {outcome}: {reported.message}"


class RelayKeepsDying(DmError):
    """The relay of a source crashes soon after every start."""

    source: str
    deaths: int
    log_path: str
    tail: str

    code = "DM-9031"
    what = "the relay of source {source} crashed {deaths} times in a row. The end of its log ({log_path}):\n{tail}\n"
    hint = "Fix the problem in the log, then start it again: the relay continues after its files."


class RelayStopped(DmError):
    source: str

    code = "DM-9032"
    what = "the relay of source {source} was stopped on request."
    hint = "Run the same command again to continue."


class RelayHangs(DmError):
    source: str
    holder: str

    code = "DM-9038"
    reaction = Reaction.RETRY
    what = "the relay of source {source} holds the lock of its directory but has not reported for minutes: {holder}"
    hint = "Check that process; if it hangs, end it by kill -9: the files are safe."


class TaskUnknown(DmError):
    """The task has never run, or not on these sources."""

    task: str
    sources: tuple[str, ...]

    code = "DM-9046"
    what = "task {task} is not known on {sources}."
    hint = (
        "`dmctl query-status`, or `airflow dm query-status` for tasks of Airflow, shows the tasks and their sources; "
        "a task is known after its first run."
    )


class ControlNotObeyed(DmError):
    """The request is stored, and no run has fulfilled it yet."""

    task: str
    source: str
    trouble: str

    code = "DM-9049"
    reaction = Reaction.RETRY
    what = "source {source} of task {task}: {trouble}."
    hint = "The request is stored, and the current run or the next one fulfils it; repeat the command to wait for it."
