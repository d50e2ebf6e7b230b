"""Real spark-submits of small scripts: their output, their ends, and that no process remains."""

import logging
import os
import signal
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_provider_dm.engine.errors import NotInstalled, ReportedError
from airflow_provider_dm.engine.meta.records import Run, Stage
from airflow_provider_dm.engine.processes import Holder
from airflow_provider_dm.launch.class_archive import archive_path, make_in_background
from airflow_provider_dm.launch.errors import RunLost, SparkAppFailed, TaskTakenOver
from airflow_provider_dm.launch.job import Job
from airflow_provider_dm.launch.preflight import find_java
from airflow_provider_dm.launch.processes import python_drivers, session_members
from airflow_provider_dm.launch.spark_command import LOCAL_JAVA_OPTIONS, SparkSettings
from airflow_provider_dm.launch.submit import AppOutcome, SparkApp
from tests import short_jvms
from tests.waiting import wait_for

from .conftest import SOURCE_PASSWORD

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

# What an app does at least: a context, a job that starts Python workers.
WITH_WORKERS = """
import os, signal, sys, time
from pyspark import SparkContext
spark = SparkContext.getOrCreate()
assert spark.parallelize([1, 2, 3, 4], 2).map(lambda n: n + 1).sum() == 14
"""
SECRET_OF_ONE = "DM_SECRET_SOURCE_ONE_7692C3AD"
RECEIVED = f"""
from pathlib import Path
from airflow_provider_dm.engine.config.secrets import PIPE, receive
password = receive(Path(sys.argv[1]).with_name(PIPE))[{SECRET_OF_ONE!r}]
print('argv', sys.argv[1:], password)
seen = []
for one in Path('/proc').glob('[0-9]*'):
    try:
        if os.getsid(int(one.name)) == os.getsid(0):
            seen.append((one / 'environ').read_bytes() + (one / 'cmdline').read_bytes())
    except ProcessLookupError:
        continue  # it has ended since
print('environments without it:', len(seen) > 2 and not any(password.encode() in text for text in seen))
"""
TICK_FOR_EVER = "print('ticking', flush=True)\nwhile True: time.sleep(0.05)\n"


NOW = datetime.now(UTC)
ROW = Run(
    "r",
    "shop",
    "verify",
    Holder("i", "1", "h"),
    Stage.RUNNING,
    started_at=NOW,
    heartbeat_at=NOW,
    heartbeat_age_seconds=0.0,
)


def no_run(_: str) -> Run | None:
    """Answer as a metadata DB that knows nothing of the run."""
    return None


Launch = Callable[[str], SparkApp]


@pytest.fixture
def launch(job: Job, tmp_path: Path, request: pytest.FixtureRequest) -> Launch:
    def start(code: str) -> SparkApp:
        script = tmp_path / "app.py"
        script.write_text(code)
        app = SparkApp.start(job, run_dir=tmp_path, script=script)
        request.addfinalizer(app.stop)
        return app

    return start


def lines(app: SparkApp) -> list[str]:
    """Return what the app and Spark have printed so far."""
    return app.log_path.read_text().splitlines() if app.log_path.exists() else []


def wait_for_line(app: SparkApp, text: str) -> None:
    wait_for(lambda: any(text in line for line in lines(app)), seconds=240, shows=lambda: "\n".join(lines(app)))


def nothing_left(app: SparkApp) -> bool:
    deadline = time.monotonic() + 60
    while session_members(app.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return session_members(app.pid) == []


def test_the_result_and_records_of_an_app_are_known_and_no_secret(
    launch: Launch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    app = launch(f"""{WITH_WORKERS}{RECEIVED}
import logging
from airflow_provider_dm.engine.reported import LogFormatter
handler = logging.StreamHandler(sys.stderr)
handler.setFormatter(LogFormatter())
logging.basicConfig(level=logging.INFO, handlers=[handler])
log = logging.getLogger("spark_apps.app")
print("26/11/24 03:00:00 WARN NativeCodeLoader: Unable to load native-hadoop library")
logging.getLogger("py4j.clientserver").warning("of a library")
log.info("two lines\\nof one record")
try:
    1 / 0
except ZeroDivisionError:
    log.warning("tried again, %s", password, exc_info=True)
""")

    assert app.outcome(lambda _: replace(ROW, result={"rows": 5})) == AppOutcome({"rows": 5})
    assert nothing_left(app)
    logged = [(one.levelname, one.getMessage()) for one in caplog.records if one.name == "spark_apps.app"]
    assert logged == [("INFO", "two lines"), ("INFO", "of one record"), ("WARNING", "tried again, ******")]
    everything, text = "\n".join(record.getMessage() for record in caplog.records), app.log_path.read_text()
    assert not any(one in everything for one in ("NativeCodeLoader", "of a library", "Traceback", SOURCE_PASSWORD))
    assert all(one in text for one in ("NativeCodeLoader", "of a library", "ZeroDivisionError"))
    (arguments,) = [line for line in lines(app) if line.startswith("argv")]
    assert "job.json" in arguments
    assert arguments.endswith("******")
    assert SOURCE_PASSWORD not in text
    assert "environments without it: True" in text
    assert stat.S_IMODE(app.log_path.stat().st_mode) == 0o600


@pytest.mark.timeout(900)
def test_the_jvm_has_our_options_and_archive_unless_the_user_has_others(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    for name in short_jvms.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert make_in_background(find_java()).wait() == 0  # `docker/local` has made it already
    archive = archive_path(find_java())
    assert archive is not None
    while not archive.exists():
        time.sleep(0.2)
    script = tmp_path / "app.py"
    script.write_text(
        "from pyspark import SparkContext\n"
        "SparkContext._ensure_initialized()\n"
        "management = SparkContext._jvm.java.lang.management\n"
        "print('JVM', *management.ManagementFactory.getRuntimeMXBean().getInputArguments(), flush=True)\n"
        "maps = open(f'/proc/{management.ManagementFactory.getRuntimeMXBean().getPid()}/maps').read()\n"
        f"print('archive is used', {str(archive)!r} in maps, flush=True)\n"
    )
    printed: list[str] = []
    for settings in (SparkSettings(), SparkSettings(conf={"spark.driver.extraJavaOptions": "-XX:+UseParallelGC"})):
        app = SparkApp.start(job, run_dir=tmp_path, script=script, settings=settings)
        request.addfinalizer(app.stop)
        assert app.wait(240) == 0, app.log_path.read_text()[-2000:]
        printed = lines(app)

    ours, theirs = [line for line in printed if line.startswith("JVM")]
    assert all(option in ours for option in LOCAL_JAVA_OPTIONS.split())
    assert [line for line in printed if line.startswith("archive")] == ["archive is used True", "archive is used False"]
    assert "UseParallelGC" in theirs
    assert "UseSerialGC" not in theirs


def test_no_argument_shows_a_secret_and_a_stopped_driver_saves_its_progress(launch: Launch) -> None:
    save = """
def save(*_):
    # The JVM must still be there: an epoch in flight is finished before the app ends.
    assert spark.parallelize([1, 2], 2).map(lambda n: n + 1).sum() == 5
    print('saved', flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
"""
    app = launch(WITH_WORKERS + save + TICK_FOR_EVER)
    wait_for_line(app, "ticking")
    for pid in session_members(app.pid):
        assert SOURCE_PASSWORD.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()

    app.stop(grace_seconds=240)

    assert app.outcome(no_run) == AppOutcome(finished=False)
    assert "saved" in lines(app)
    assert nothing_left(app)


def test_a_driver_that_does_not_listen_is_killed_with_its_jvm_and_workers(launch: Launch) -> None:
    app = launch(f"{WITH_WORKERS}signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{TICK_FOR_EVER}")
    wait_for_line(app, "ticking")
    assert len(session_members(app.pid)) >= 3  # JVM, driver, worker daemon

    app.stop()

    assert nothing_left(app)


def test_a_driver_ends_when_its_jvm_is_killed(launch: Launch) -> None:
    app = launch(WITH_WORKERS + TICK_FOR_EVER)
    wait_for_line(app, "ticking")

    os.kill(app.pid, signal.SIGKILL)

    with pytest.raises(RunLost, match="exit code -9"):
        app.outcome(no_run)
    assert nothing_left(app)


def test_a_killed_driver_is_reported_with_the_end_of_its_log(launch: Launch, tmp_path: Path) -> None:
    app = launch("import time\n" + TICK_FOR_EVER)
    wait_for_line(app, "ticking")
    (driver,) = python_drivers(app.pid, tmp_path / "app.py")

    os.kill(driver, signal.SIGKILL)

    with pytest.raises(RunLost, match="ticking"):
        app.outcome(no_run)


def test_of_a_long_log_the_error_has_the_end(launch: Launch) -> None:
    app = launch("import sys\nfor n in range(40): print('before ' * 20)\nsys.exit('the reason')")

    with pytest.raises(RunLost, match="the reason"):
        app.outcome(no_run)


def test_exit_codes_2_and_3_become_typed_errors(launch: Launch) -> None:
    reported = {"ErrCode": "DM-5002", "ErrScope": "upstream", "Message": "columns differ."}
    line = 'DM-ERROR {"ErrCode": "DM-8002", "ErrScope": "internal", "Message": "metadata DB is gone."}'
    failed = launch(f"import sys\nprint({line!r}, file=sys.stderr)\nsys.exit(2)")
    with pytest.raises(SparkAppFailed, match=r"^\[DM-5002 upstream\] \S+ stopped: columns differ\.") as raised:
        failed.outcome(lambda _: replace(ROW, error=reported))
    assert raised.value.reported == ReportedError.read(reported)
    with pytest.raises(SparkAppFailed, match=r"^\[DM-8002 internal\] \S+ stopped: metadata DB is gone\."):
        failed.outcome(no_run)  # the error could not be stored: the log has it

    finished = launch("")
    with pytest.raises(RunLost, match="the metadata DB has none"):
        finished.outcome(lambda _: replace(ROW, result=None))

    fenced = launch("import sys; sys.exit(3)")
    with pytest.raises(TaskTakenOver):
        fenced.outcome(no_run)


def test_without_java_nothing_is_started(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NotInstalled, match="Java 17"):
        SparkApp.start(job, run_dir=tmp_path)

    assert not (tmp_path / "job.json").exists()
