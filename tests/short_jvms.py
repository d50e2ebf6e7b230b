"""JVMs that live for seconds, as `launch` starts them on one machine, also where a test starts Spark by itself.

Spark's own variables, which every Spark of a test session inherits; what it computes is the same. Benchmarks know
nothing of this. Measured on two cores, for an app that does next to nothing: 8.5 s of CPU time, 5.3 s with these.
"""

import os
from typing import Final

from airflow_provider_dm.launch.spark_command import LOCAL_JAVA_OPTIONS

VARIABLES: Final = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")
"""Options of an app's JVM, and of the one that only prints its command line."""


def use() -> None:
    """Use them from now on, in this process and those that it starts, unless somebody has set other options."""
    for name in VARIABLES:
        os.environ.setdefault(name, LOCAL_JAVA_OPTIONS)
