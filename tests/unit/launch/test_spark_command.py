"""The command line of spark-submit: complete, without secrets, and the same archive for the same engine."""

import importlib.util
import marshal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from airflow_provider_dm.engine.errors import NotInstalled
from airflow_provider_dm.launch import spark_command
from airflow_provider_dm.launch.job import Job
from airflow_provider_dm.launch.spark_command import (
    LOCAL_JAVA_OPTIONS,
    Command,
    SparkSettings,
    app_script,
    engine_archive,
    local_java_options,
    spark_submit_command,
)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine's archive; to make one is to compile all of the engine."""
    return engine_archive(tmp_path_factory.mktemp("archive") / "engine.zip")


def command(job: Job, tmp_path: Path, settings: SparkSettings, python_path: str = "", **environ: str) -> Command:
    inherited = {"PYTHONPATH": python_path, **environ}
    return spark_submit_command(
        job.spec,
        script=tmp_path / "app.py",
        job_file=tmp_path / "job.json",
        settings=settings,
        java_home=Path("/jdk"),
        java_options=local_java_options(settings, inherited),
        environ=inherited,
    )


def option(argv: tuple[str, ...], name: str) -> str:
    return argv[argv.index(name) + 1]


def conf(argv: tuple[str, ...]) -> dict[str, str]:
    pairs = [argv[index + 1] for index, word in enumerate(argv) if word == "--conf"]
    return dict(pair.split("=", 1) for pair in pairs)


def test_the_local_default_retries_tasks_and_ships_nothing(job: Job, tmp_path: Path) -> None:
    made = command(job, tmp_path, SparkSettings(conf={"spark.pyspark.python": "/executor/python"}))

    assert option(made.argv, "--master").startswith("local[")
    assert option(made.argv, "--master").endswith(",4]")
    assert "--py-files" not in made.argv
    assert made.argv[-2:] == (str(tmp_path / "app.py"), str(tmp_path / "job.json"))
    driver = conf(made.argv)["spark.pyspark.driver.python"]
    assert made.environment["PYSPARK_PYTHON"] == driver == sys.executable
    assert made.environment["JAVA_HOME"] == "/jdk"
    assert (Path(made.environment["SPARK_HOME"]) / "bin" / "spark-submit").is_file()


def test_required_spark_settings_are_set_and_the_users_conf_wins(job: Job, tmp_path: Path) -> None:
    users = {"spark.log.level": "INFO", "spark.x": "1=2"}
    off = dict.fromkeys(("spark.speculation", "spark.ui.enabled"), "false")

    seen = conf(command(job, tmp_path, SparkSettings(conf=users)).argv)

    assert seen | users | off == seen
    assert seen["spark.python.unix.domain.socket.enabled"] == "true"
    assert "spark.cleaner.periodicGC.interval" in seen


def java_options(made: Command) -> tuple[str | None, str | None]:
    """Return the options of the driver's JVM and of the one that only prints its command line."""
    return conf(made.argv).get("spark.driver.defaultJavaOptions"), made.environment.get("SPARK_LAUNCHER_OPTS")


def test_jvms_of_this_machine_do_not_compile_and_collect_more_than_it_pays(job: Job, tmp_path: Path) -> None:
    assert java_options(command(job, tmp_path, SparkSettings())) == (LOCAL_JAVA_OPTIONS, LOCAL_JAVA_OPTIONS)
    assert java_options(command(job, tmp_path, SparkSettings(master="local[1]")))[0] == LOCAL_JAVA_OPTIONS
    of_launcher = command(job, tmp_path, SparkSettings(), SPARK_LAUNCHER_OPTS="-Xmx64m")
    assert java_options(of_launcher) == (LOCAL_JAVA_OPTIONS, None), "the launcher's own options stay"


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "local-cluster[2,1,1024]"])
def test_a_cluster_gets_no_java_options(
    master: str, job: Job, tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_command, "engine_archive", lambda _: archive)

    assert java_options(command(job, tmp_path, SparkSettings(master=master))) == (None, None)


@pytest.mark.parametrize("key", ["spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"])
def test_options_in_the_conf_replace_ours(key: str, job: Job, tmp_path: Path) -> None:
    """They may name another collector, and a JVM with two collectors does not start."""
    seen = conf(command(job, tmp_path, SparkSettings(conf={key: "-XX:+UseG1GC"})).argv)

    assert [value for name, value in seen.items() if "JavaOptions" in name] == ["-XX:+UseG1GC"]


@pytest.mark.parametrize("variable", ["SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"])
def test_java_options_of_the_environment_replace_ours(variable: str, job: Job, tmp_path: Path) -> None:
    assert java_options(command(job, tmp_path, SparkSettings(), **{variable: "-XX:+UseZGC"})) == (None, None)


def test_java_options_of_spark_defaults_replace_ours(job: Job, tmp_path: Path) -> None:
    defaults = tmp_path / "spark-defaults.conf"
    defaults.write_text("# spark.driver.extraJavaOptions -Da=b\nspark.ui.port 1\n")
    assert java_options(command(job, tmp_path, SparkSettings(), SPARK_CONF_DIR=str(tmp_path)))[0] == LOCAL_JAVA_OPTIONS

    defaults.write_text("spark.driver.extraJavaOptions  -XX:+UseParallelGC\n")
    assert java_options(command(job, tmp_path, SparkSettings(), SPARK_CONF_DIR=str(tmp_path))) == (None, None)


def test_the_inherited_python_path_follows_ours_once(job: Job, tmp_path: Path) -> None:
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


def test_the_archive_is_the_same_bytes_each_time(archive: Path, tmp_path: Path) -> None:
    assert engine_archive(tmp_path / "two.zip").read_bytes() == archive.read_bytes()


def test_an_executor_can_import_the_engine_from_the_archive_alone(archive: Path) -> None:
    assert imported_from(archive) == f"{archive}/airflow_provider_dm/engine/config/job.pyc", "compiled already"


def test_an_executor_of_another_python_takes_the_sources(archive: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(archive) as ours, zipfile.ZipFile(other, "w") as theirs:
        for name in ours.namelist():
            content = ours.read(name)
            theirs.writestr(name, b"\0" * 4 + content[4:] if name.endswith(".pyc") else content)

    assert imported_from(other) == f"{other}/airflow_provider_dm/engine/config/job.py"


def test_compiled_modules_in_the_archive_match_their_sources(archive: Path) -> None:
    with zipfile.ZipFile(archive) as members:
        names = set(members.namelist())
        assert {name for name in names if name.endswith(".pyc")} == {f"{name}c" for name in names if name[-3:] == ".py"}
        for name in sorted(names):
            if name.endswith(".py"):
                source = members.read(name)
                assert members.read(f"{name}c")[8:16] == importlib.util.source_hash(source)
                code = marshal.loads(members.read(f"{name}c")[16:])
                assert code == compile(source, name, "exec", dont_inherit=True)


def imported_from(archive: Path) -> str:
    """Return where a module of the engine comes from in a process that has the archive alone."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from airflow_provider_dm.engine.config import job; print(job.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(archive)], check=True, capture_output=True, text=True, cwd=archive.parent
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("master", "local"),
    [("local", True), ("local[2,4]", True), ("local-cluster[1,1,1024]", False), ("spark://m:7077", False)],
)
def test_only_a_driver_that_runs_its_own_tasks_is_local(master: str, local: bool) -> None:
    assert SparkSettings(master=master).is_local is local


def test_a_missing_app_is_named() -> None:
    with pytest.raises(NotInstalled, match="time_travel"):
        app_script("time_travel")
