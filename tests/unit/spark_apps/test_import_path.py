"""The directory from which the apps import PySpark."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark

from spark_apps import without_archive

HOME = Path(pyspark.__file__).resolve().parent
ARCHIVE = str(HOME / "python" / "lib" / "pyspark.zip")


def imported_from(**environ: str) -> str:
    """Return what an app imports in a process that spark-submit has started with this environment."""
    done = subprocess.run(
        [sys.executable, "-c", "import spark_apps, pyspark; print(pyspark.__file__)"],
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([ARCHIVE, *filter(None, sys.path)]), **environ},
    )
    return done.stdout.strip()


def test_the_installed_pyspark_is_used_if_it_is_the_running_spark() -> None:
    assert imported_from(SPARK_HOME=str(HOME)) == str(HOME / "__init__.py")


def test_another_spark_has_its_own_python_libraries() -> None:
    assert imported_from(SPARK_HOME="/opt/spark") == f"{ARCHIVE}/pyspark/__init__.py"
    assert imported_from() == f"{ARCHIVE}/pyspark/__init__.py"


def test_the_archive_stays_if_the_package_is_not_on_the_path() -> None:
    assert without_archive([ARCHIVE, "/elsewhere"], str(HOME)) == [ARCHIVE, "/elsewhere"]
    assert without_archive([ARCHIVE, str(HOME.parent), "/elsewhere"], str(HOME)) == [str(HOME.parent), "/elsewhere"]
