"""Spark that does not come up is told by the master's name, and the first line of what Java says."""

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from airflow_provider_dm.engine.errors import Reaction
from spark_apps import runner
from spark_apps.errors import SparkNotStarted

SAID = (
    "An error occurred while calling None.org.apache.api.java.JavaSparkContext.\n"
    ": java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was …"
)


def refuse(_conf: object) -> None:
    raise Py4JError(SAID)


def test_a_master_that_takes_no_app(monkeypatch: pytest.MonkeyPatch) -> None:
    conf = {"spark.master": "spark://nowhere:7077"}
    said = SimpleNamespace(get=conf.get)
    said.setIfMissing = lambda name, value: conf.setdefault(name, value) and said
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(runner, "SparkConf", lambda: said)
    monkeypatch.setattr(runner, "SparkContext", SimpleNamespace(getOrCreate=refuse))

    with pytest.raises(SparkNotStarted, match=r"spark://nowhere:7077: Cannot call methods on a stopped") as raised:
        runner.spark_context("app")
    assert raised.value.reaction is Reaction.RETRY
