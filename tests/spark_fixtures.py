"""One Spark for the whole test session: `from tests.spark_fixtures import spark` in a conftest that needs it.

local[2,4]: two slots, and tasks are retried as on a cluster (local[2] would never retry)."""

from collections.abc import Iterator

import pytest

from spark_apps.runner import SparkRunner, spark_context
from spark_apps.workers import WORKER_IMPORTS


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkRunner]:
    """A runner on a local Spark, started at the first use and stopped with the session."""
    context = spark_context("dm-tests", WORKER_IMPORTS["incremental_sync"])
    yield SparkRunner(context)
    context.stop()
