"""The errors of the precheck."""

from __future__ import annotations

from airflow_provider_dm.engine.errors import DmError, UpstreamError


class PrecheckFailed(DmError):
    """At least one check failed: the task cannot run. `remedies`: the remedy of each failure, in the same order."""

    task: str
    failures: tuple[str, ...]
    remedies: tuple[str, ...] = ()

    code = "DM-7401"
    what = "the precheck of task {task} failed"
    hint = "`dmctl check-task` shows all results. Nothing was changed."

    def happened(self) -> str:
        return f"{super().happened()}: {'; '.join(failure.rstrip('.') for failure in self.failures)}."

    def workaround(self) -> str:
        return " ".join((*dict.fromkeys(filter(None, self.remedies)), self.hint))


class ShardsDiffer(UpstreamError):
    target: str
    one: str
    other: str
    what_differs: str

    code = "DM-7402"
    what = (
        "the shards of {target} differ at the start, but DDL of all shards requires the same definition: {one} and "
        "{other} differ in {what_differs}."
    )
    hint = (
        "Execute the same DDL on all shards before the task begins, or before a source joins it. If it is being "
        "executed now, wait until all shards have it. `ignore-checking-items: [shard_tables]` starts nevertheless, if "
        "the columns have the same names. Then a DDL that one source has executed before, and another source executes "
        "later, waits for the first source and holds back the rows after it, until `dmctl shard-ddl-lock unlock ID "
        "--force-remove`."
    )
