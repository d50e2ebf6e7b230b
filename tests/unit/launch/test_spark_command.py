"""The command line of spark-submit: complete, without secrets, and the same archive for the same engine."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from airflow_provider_dm.launch.job import Job
from airflow_provider_dm.launch.spark_command import (
    Command,
    SparkAppMissing,
    SparkSettings,
    app_script,
    engine_archive,
    spark_submit_command,
)


def command(job: Job, tmp_path: Path, settings: SparkSettings, python_path: str = "") -> Command:
    return spark_submit_command(
        job.spec,
        script=tmp_path / "app.py",
        job_file=tmp_path / "job.json",
        settings=settings,
        java_home=Path("/jdk"),
        python_path=python_path,
    )


def option(argv: tuple[str, ...], name: str) -> str:
    return argv[argv.index(name) + 1]


def conf(argv: tuple[str, ...]) -> dict[str, str]:
    pairs = [argv[index + 1] for index, word in enumerate(argv) if word == "--conf"]
    return dict(pair.split("=", 1) for pair in pairs)


def test_no_secret_is_in_argv_or_in_what_is_added_to_the_environment(job: Job, tmp_path: Path) -> None:
    made = command(job, tmp_path, SparkSettings())

    for secret in job.secrets.variables.values():
        assert secret not in " ".join([*made.argv, *made.environment.values()])


def test_the_local_default_retries_tasks_and_ships_nothing(job: Job, tmp_path: Path) -> None:
    argv = command(job, tmp_path, SparkSettings()).argv

    assert option(argv, "--master").startswith("local[")
    assert option(argv, "--master").endswith(",4]")
    assert "--py-files" not in argv
    assert argv[-2:] == (str(tmp_path / "app.py"), str(tmp_path / "job.json"))


def test_what_the_engine_relies_on_is_set_and_the_users_conf_wins(job: Job, tmp_path: Path) -> None:
    settings = SparkSettings(conf={"spark.log.level": "INFO", "spark.x": "1=2"})

    seen = conf(command(job, tmp_path, settings).argv)

    assert seen["spark.python.unix.domain.socket.enabled"] == "true"
    assert seen["spark.speculation"] == "false"
    assert seen["spark.ui.enabled"] == "false"
    assert "spark.cleaner.periodicGC.interval" in seen
    assert seen["spark.log.level"] == "INFO"
    assert seen["spark.x"] == "1=2"


def test_driver_and_workers_are_this_interpreter(job: Job, tmp_path: Path) -> None:
    environment = command(job, tmp_path, SparkSettings()).environment

    assert environment["PYSPARK_PYTHON"] == environment["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert environment["JAVA_HOME"] == "/jdk"
    assert (Path(environment["SPARK_HOME"]) / "bin" / "spark-submit").is_file()


def test_the_inherited_python_path_comes_after_ours_and_once(job: Job, tmp_path: Path) -> None:
    own = command(job, tmp_path, SparkSettings()).environment["PYTHONPATH"]
    both = command(job, tmp_path, SparkSettings(), f"/elsewhere:{own}").environment["PYTHONPATH"]

    assert both.split(":") == [part for part in own.split(":") if part] + ["/elsewhere"]


def test_a_cluster_gets_the_engine_and_the_apps_but_not_the_airflow_floor(job: Job, tmp_path: Path) -> None:
    argv = command(job, tmp_path, SparkSettings(master="spark://master:7077")).argv

    names = set(zipfile.ZipFile(option(argv, "--py-files")).namelist())
    assert {"airflow_provider_dm/__init__.py", "airflow_provider_dm/engine/errors.py"} <= names
    assert not any(name.startswith(("airflow_provider_dm/operators", "airflow_provider_dm/cli")) for name in names)
    assert not any("__pycache__" in name for name in names)
    assert "spark.driver.host" not in conf(argv)


def test_the_archive_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    one, two = engine_archive(tmp_path / "one.zip"), engine_archive(tmp_path / "two.zip")

    assert one.read_bytes() == two.read_bytes()


def test_an_executor_can_import_the_engine_from_the_archive_alone(tmp_path: Path) -> None:
    archive = engine_archive(tmp_path / "engine.zip")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from airflow_provider_dm.engine.config import job; print(job.__file__)"
    )

    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(archive)], check=True, capture_output=True, text=True, cwd=tmp_path
    )

    assert done.stdout.startswith(str(archive))


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[2,4]", True),
        ("local-cluster[1,1,1024]", False),
        ("spark://m:7077", False),
        ("yarn", False),
    ],
)
def test_only_a_driver_that_runs_its_own_tasks_is_local(master: str, local: bool) -> None:
    assert SparkSettings(master=master).is_local is local


def test_an_app_that_is_not_there_is_named() -> None:
    with pytest.raises(SparkAppMissing, match="time_travel"):
        app_script("time_travel")
