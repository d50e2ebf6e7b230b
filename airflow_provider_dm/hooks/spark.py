"""The start of a Spark app from Airflow, by a Spark connection and `airflow_provider_dm.launch`.

The provider's hook interprets a connection of type `spark` (master, queue, namespace, Kerberos). Its `submit` is not
used: for a missing connection it submits to YARN, and its kill ends the JVM but not the Python driver. This hook uses
the provider's hook only to read the connection, and starts the process itself: in a session of its own, with the
secrets in a pipe. A kill ends all processes of the session within three seconds.

Private names of the provider are used in one place (`_connection`); tests/airflow/test_spark_hook.py watches them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.apache.spark.hooks.spark_submit import DEFAULT_SPARK_BINARY, SparkSubmitHook
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_dm.engine.errors import InvalidInput, NotSupportedYet
from airflow_provider_dm.hooks import settings
from airflow_provider_dm.hooks.errors import ConnectionUnusable
from airflow_provider_dm.launch.spark_command import SparkSettings
from airflow_provider_dm.launch.submit import SparkApp

if TYPE_CHECKING:
    from airflow_provider_dm.launch.job import Job

APP_KILL_SECONDS: Final = 2.0
"""The time between SIGTERM and SIGKILL of the app. Airflow allows five seconds between a task's SIGTERM and its
SIGKILL."""
_CONF_OF: Final = {
    "queue": "spark.yarn.queue",
    "namespace": "spark.kubernetes.namespace",
    "principal": "spark.kerberos.principal",
    "keytab": "spark.kerberos.keytab",
}
"""The options that the provider would pass to spark-submit, as configuration."""


class DmSparkSubmitHook(SparkSubmitHook):
    """A hook that starts one Spark app in client mode and ends it completely.

    :param conn_id: connection of type ``spark``; if it does not exist, ``[dm] spark_master`` is the master
    :param conf: Spark configuration, which overrides the connection's; it must not hold secrets
    :param driver_memory: as Spark writes sizes
    """

    def __init__(
        self,
        *,
        conn_id: str = SparkSubmitHook.default_conn_name,
        conf: Mapping[str, str] | None = None,
        driver_memory: str = "1g",
    ) -> None:
        super().__init__(conf=dict(conf or {}), conn_id=conn_id, driver_memory=driver_memory, name="dm")
        self.conf = dict(conf or {})
        self.driver_memory = driver_memory
        self.app: SparkApp | None = None
        self.stop_requested = False
        """True if `on_kill` ended the app; other callers may end it, too."""
        self._ending = False

    @classmethod
    def get_connection(cls, conn_id: str) -> Connection:
        """Return the Spark connection; if it does not exist, a connection with the master `[dm] spark_master` (the
        provider would use YARN).

        Raises ConnectionUnusable for a connection of another type, whose host would be used as a master.
        """
        try:
            connection = super().get_connection(conn_id)
        except AirflowNotFoundException:
            return Connection(conn_id=conn_id, conn_type=cls.conn_type, host=settings.option("spark_master"))
        if connection.conn_type != cls.conn_type:
            raise ConnectionUnusable(conn_id, f"its type is {connection.conn_type}, not {cls.conn_type}")
        return connection

    def settings(self) -> SparkSettings:
        """Return the Spark settings of the connection. Raises NotSupportedYet, InvalidInput."""
        stored: Mapping[str, Any] = self._connection
        if stored["deploy_mode"] == "cluster":
            raise NotSupportedYet("Spark deploy-mode cluster", f"connection {self._conn_id}", "Use client mode.")
        if (stored["spark_binary"] or DEFAULT_SPARK_BINARY) != DEFAULT_SPARK_BINARY:
            raise NotSupportedYet(
                f"spark-binary {stored['spark_binary']}",
                f"connection {self._conn_id}",
                "The spark-submit of the installed pyspark is used, so that driver and workers are one version.",
            )
        if stored["master"].startswith("yarn") and not any(map(os.environ.get, ("HADOOP_CONF_DIR", "YARN_CONF_DIR"))):
            raise InvalidInput(
                f"the Spark connection {self._conn_id!r} has the master yarn, and neither HADOOP_CONF_DIR nor "
                "YARN_CONF_DIR is set here.",
                "Set its host to local[*] or to your master (spark://host:7077), or delete it: [dm] spark_master "
                "is used then.",
            )
        of_connection = {key: str(stored[name]) for name, key in _CONF_OF.items() if stored.get(name)}
        return SparkSettings(
            master=stored["master"],
            driver_memory=self.driver_memory,
            conf={**of_connection, **self.conf},
        )

    def start(self, job: Job, *, run_dir: Path) -> SparkApp:
        """Start the app. Raises the errors of `SparkApp.start` and `settings`."""
        self.app = SparkApp.start(job, run_dir=run_dir, settings=self.settings())
        return self.app

    def on_kill(self) -> None:
        """End the app and everything it started, within three seconds. Idempotent; nothing happens if none runs."""
        if self.app is None or self._ending:
            return
        self.stop_requested = True
        self.log.info("ending Spark app %s, session %d", self.app.job.spec.app, self.app.pid)
        self.end()

    def end(self) -> None:
        """End all remaining processes of the app.

        The task's SIGTERM handler may interrupt this method in the same thread and call it again, so it takes no lock.
        """
        if self.app is not None and not self._ending:
            self._ending = True
            self.app.stop(APP_KILL_SECONDS)
