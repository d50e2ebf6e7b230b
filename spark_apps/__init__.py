"""Programs for spark-submit: the only place that imports PySpark. They never import Airflow.

spark-submit puts `pyspark.zip` first in `sys.path`. Importing PySpark from this archive, without compiled files, takes
twice as long as from the package that contains the archive; so the package is used if it is the running Spark.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def without_archive(path: list[str], spark_home: str) -> list[str]:
    """Return `sys.path` without PySpark's archive, if the package around it can be imported from the rest."""
    home = Path(spark_home or "/nonexistent").resolve()
    if home.name != "pyspark" or home.parent not in {Path(entry).resolve() for entry in path if entry}:
        return path
    return [entry for entry in path if Path(entry).resolve() != home / "python" / "lib" / "pyspark.zip"]


if "pyspark" not in sys.modules:
    sys.path[:] = without_archive(sys.path, os.environ.get("SPARK_HOME", ""))
