"""The settings that a Spark connection gives an app, and the provider's private names that the hook uses."""

import inspect
import sys

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_dm.engine.errors import DmError, InvalidInput, NotSupportedYet
from airflow_provider_dm.hooks.errors import ConnectionUnusable
from airflow_provider_dm.hooks.spark import DmSparkSubmitHook
from airflow_provider_dm.operators.verify import DmVerifyOperator
from tests.airflow.support import Define


def test_the_provider_still_has_what_we_use() -> None:
    """A contract: should a release rename these, this fails and not a migration."""
    source = inspect.getsource(SparkSubmitHook.__init__)
    assert "self._connection = self._resolve_connection()" in source
    assert "self._conn_id = conn_id" in source
    assert "self.get_connection(self._conn_id)" in inspect.getsource(SparkSubmitHook._resolve_connection)


def test_a_missing_spark_provider_is_reported_with_the_command_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = DmVerifyOperator(task_id="verify", task="task.yaml")
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "airflow_provider_dm.hooks.spark")
        patch.setitem(sys.modules, "airflow.providers.apache.spark.hooks.spark_submit", None)
        with pytest.raises(DmError, match="pip install apache-airflow-providers-apache-spark"):
            _ = operator.hook
    assert isinstance(operator.hook, DmSparkSubmitHook)


def test_every_key_that_we_read_exists(connection: Define) -> None:
    connection("spark_default", conn_type="spark", host="local[1]")
    wanted = {"master", "deploy_mode", "spark_binary", "queue", "namespace", "principal", "keytab"}
    assert wanted <= DmSparkSubmitHook()._connection.keys()


def test_without_a_connection_it_is_this_machine_and_never_yarn() -> None:
    found = DmSparkSubmitHook(conn_id="not_there").settings()
    assert found.resolved_master == "local[*,4]"
    assert found.is_local


def test_the_configured_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__DM__SPARK_MASTER", "spark://master:7077")
    assert DmSparkSubmitHook(conn_id="not_there").settings().resolved_master == "spark://master:7077"


@pytest.mark.parametrize(
    ("parts", "master"),
    [
        ({"host": "local[2]"}, "local[2,4]"),
        ({"host": "local[2,1]"}, "local[2,1]"),
        ({"host": "spark://one", "port": 7077}, "spark://one:7077"),
        ({"host": "one", "port": 7077}, "spark://one:7077"),
    ],
)
def test_a_connection_names_the_master(parts: dict[str, object], master: str, connection: Define) -> None:
    connection("spark_default", conn_type="spark", **parts)
    assert DmSparkSubmitHook().settings().resolved_master == master


def test_other_options_of_a_connection_become_configuration(
    connection: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    connection("spark_default", conn_type="spark", host="yarn", extra={"queue": "night", "principal": "dm@REALM"})
    found = DmSparkSubmitHook(conf={"spark.executor.memory": "4g"}).settings()
    assert found.conf == {
        "spark.yarn.queue": "night",
        "spark.kerberos.principal": "dm@REALM",
        "spark.executor.memory": "4g",
    }


def test_airflows_sample_connection_is_recognised(connection: Define, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    connection("spark_default", conn_type="spark", host="yarn", extra={"queue": "root.default"})
    with pytest.raises(InvalidInput, match=r"local\[\*\]"):
        DmSparkSubmitHook().settings()


def test_the_host_of_another_kind_of_connection_is_no_master(connection: Define) -> None:
    connection("spark_default", conn_type="dm_database", host="db1", port=3306)
    with pytest.raises(ConnectionUnusable, match="its type is dm_database, not spark"):
        DmSparkSubmitHook()


@pytest.mark.parametrize("extra", [{"deploy-mode": "cluster"}, {"spark-binary": "spark3-submit"}])
def test_differences_that_would_go_unnoticed_are_refused(extra: dict[str, str], connection: Define) -> None:
    connection("spark_default", conn_type="spark", host="spark://one:7077", extra=extra)
    with pytest.raises(NotSupportedYet):
        DmSparkSubmitHook().settings()


def test_a_kill_before_the_app_has_started_does_nothing() -> None:
    hook = DmSparkSubmitHook(conn_id="not_there")
    hook.on_kill()
    hook.end()
    assert not hook.stop_requested
