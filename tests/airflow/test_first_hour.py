"""The documented commands, executed: docs/first-hour.md as a new user follows it, then the pages that build on it.

The user has an empty environment and a clone: Airflow, Spark and the wheel of this distribution are installed by the
documented commands, and the clone's packages are gone afterwards. The commands of other pages run in this process, on
what the user has made. All servers are real. The passwords of the pages are canaries: after all of it they are in the
files that the pages write and in Airflow's encrypted store, and nowhere else.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import pytest
from airflow.cli.cli_parser import get_parser

from airflow_provider_dm.cli.main import main
from airflow_provider_dm.engine.binlog.kernels import build
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.identifiers import TableName
from airflow_provider_dm.engine.shard.lock import DdlInfo, reported
from airflow_provider_dm.launch import task_control
from airflow_provider_dm.launch.class_archive import archive_path
from airflow_provider_dm.launch.preflight import find_java
from testbed import Server
from tests.airflow.support import wait_for
from tests.documents import ROOT, Block, blocks, commands

SECRETS = ("source-secret", "target-secret", "control-secret")
SHOP = "CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(20)); INSERT INTO shop.orders VALUES (1,'a'),(2,'b')"
OF_THE_SHELL = {"umask", "cat", "export"}
NOT_EXECUTED = {
    r"('?\w+=\S+ )?\./docker/local .*": "these tests, the demo and benchmarks, for minutes each",
    r"sudo apt-get .*": "it changes the system; it is simulated where the machine has lists of packages",
    r"tiup .*": "DM's own program, which is not here",
    r"pip install .* pyspark==VERSION": "pip fetches and builds 450 MB; the page's command for uv is executed",
}
"""Documented commands that no test executes as they are, and why."""
TWO_SOURCES = "dmctl run orders.yaml -s mysql-01.yaml -s mysql-02.yaml"
"""Executed by tests/e2e/test_dmctl_run.py."""


@pytest.fixture
def servers(mariadb_source: Server, mysql_target: Server) -> Iterator[Mapping[str, Server]]:
    mariadb_source.sql(f"CREATE DATABASE shop; {SHOP}")
    yield {"source": mariadb_source, "target": mysql_target}
    mariadb_source.sql("SET GLOBAL read_only = OFF; DROP DATABASE shop; DROP USER dm")
    for name in ("shop", "shop_by_airflow", "dm_meta", "dm_control"):
        mysql_target.sql(f"DROP DATABASE IF EXISTS `{name}`")
    mysql_target.sql("DROP USER IF EXISTS dm, dm_control")


def simulated() -> str:
    """Return how a command begins that resolves packages and installs none; a comment without lists of packages."""
    apt = shutil.which("apt-cache")
    asked = None if apt is None else subprocess.run([apt, "show", "git"], capture_output=True, check=False)
    return r"\1 --simulate " if asked is not None and asked.stdout else "# "


@dataclass
class Reader:
    """A user who follows pages in one terminal."""

    home: Path
    servers: Mapping[str, Server]
    environment: dict[str, str] = field(default_factory=dict)
    printed: str = ""
    done: set[str] = field(default_factory=set)
    caches: dict[str, str] = field(default_factory=dict)
    """Variables for installers, which find their configuration and what was downloaded."""

    def __post_init__(self) -> None:
        (self.home / "airflow" / "dags").mkdir(parents=True)
        ours = ("AIRFLOW", "DM_", "PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        kept[build.DIRECTORY] = str(build.directory().parent)  # the same code on the same machine: not compiled again
        programs = [one for one in os.environ["PATH"].split(":") if Path(one) != Path(sys.executable).parent]
        self.environment = kept | {
            "HOME": str(self.home),
            "AIRFLOW_HOME": str(self.home / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "PATH": ":".join((f"{sys.base_prefix}/bin", *programs)),
        }

    def install(self) -> None:
        """Make an empty environment and install the distribution from a clone, which is then removed."""
        clone = [self.home / name for name in ("airflow_provider_dm", "spark_apps")]
        for folder in clone:
            shutil.copytree(ROOT / folder.name, folder, ignore=shutil.ignore_patterns("__pycache__"))
        (self.home / "docker").mkdir()
        for name in ("pyproject.toml", "README.md", "LICENSE", "docker/constraints.txt", "docker/overrides.txt"):
            shutil.copy(ROOT / name, self.home / name)
        self.environment["PATH"] = f"{self.home / 'dm' / 'bin'}:{self.environment['PATH']}"  # as `activate` does
        self._share_bytecode()
        pages = (ROOT / "docs/first-hour.md", ROOT / "docs/how-to/dmctl.md")
        for setting in ({"UV_OFFLINE": "1"}, {}):  # first from what `docker/local` has downloaded: no 450 MB again
            self.caches = {"HOME": os.environ["HOME"], **setting}
            with suppress(AssertionError) if setting else nullcontext():
                for block in blocks(*pages):
                    if block.mark == "install":
                        without = re.sub(r"^sudo (apt-get install) ", simulated(), block.text, flags=re.MULTILINE)
                        self.run(block._replace(text=without), **self.caches)
                break
        for folder in clone:
            shutil.rmtree(folder)
        self._share_archive()

    def _share_bytecode(self) -> None:
        """Let the new environment use what Python has compiled for this one: the same files, linked by uv."""
        if sys.pycache_prefix is None:
            return
        self.environment["PYTHONPYCACHEPREFIX"] = ours = str(self.home / "bytecode")
        for installed, known in ((sys.base_prefix, sys.base_prefix), (str(self.home / "dm"), sys.prefix)):
            Path(ours + installed).parent.mkdir(parents=True)
            Path(ours + installed).symlink_to(sys.pycache_prefix + known)

    def _share_archive(self) -> None:
        """Let the new environment use the class archive of these tests, instead of making another."""
        archive = archive_path(find_java())
        if archive is None or not archive.exists():
            return
        asks = f"from {archive_path.__module__} import archive_path, find_java; print(archive_path(find_java()))"
        words = [f"{self.home}/dm/bin/python", "-c", asks]
        done = subprocess.run(words, env=self.environment, cwd=self.home, capture_output=True, text=True, check=True)
        Path(done.stdout.strip()).symlink_to(archive)

    def repair(self) -> None:
        """Damage pyspark, and repair it as docs/how-to/repair-pyspark.md shows."""
        next((self.home / "dm").glob("lib/*/site-packages/pyspark/version.py")).unlink()
        self.run(Block(ROOT, "bash", "", "dmctl doctor > damaged.txt || test $? -ne 0"))
        assert "the installed pyspark is a mixture" in (self.home / "damaged.txt").read_text()
        command = "uv pip install --no-deps --reinstall-package pyspark pyspark==VERSION"
        real = command.replace("VERSION", version("pyspark"))
        self.run(Block(ROOT, "bash", "", f"{real} && HOME={self.home} dmctl doctor"), **self.caches)
        self.done.add(command)

    def follow(self, page: str) -> None:
        """Do what a page shows, block by block, but for the installation."""
        for block in blocks(ROOT / page):
            match block.kind, block.mark:
                case "sql", side:
                    self.servers[side].sql(block.text)
                case "bash", "":
                    self.run(block)
                case "python", "dag":
                    (self.home / "airflow" / "dags" / "orders.py").write_text(block.text)

    def run(self, block: Block, **variables: str) -> None:
        """Run a block of commands, which have to succeed."""
        self.done |= {shlex.join(one) for one in commands(block)}
        words, environment = (
            ["bash", "-euo", "pipefail", "-c", self._here(block.text)],
            {**self.environment, **variables},
        )
        done = subprocess.run(words, cwd=self.home, env=environment, capture_output=True, text=True, check=False)
        self.printed += done.stdout + done.stderr
        assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"

    def _here(self, text: str) -> str:
        """Return the text with these servers in the place of the pages'."""
        for host, side, port in (("10.0.0.5", "source", 3306), ("10.0.0.9", "target", 4000)):
            text = text.replace(host, "127.0.0.1")
            text = re.sub(rf'("?port"?: ){port}\b', rf"\g<1>{self.servers[side].port}", text)
        return text


@pytest.mark.spark
@pytest.mark.timeout(3000)
def test_a_new_user_follows_the_pages(
    tmp_path: Path, servers: Mapping[str, Server], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = Reader(tmp_path, servers)
    reader.install()
    reader.follow("docs/first-hour.md")

    source, target = servers["source"], servers["target"]
    assert "task orders: verified: every row is equal" in reader.printed
    rows = source.sql("SELECT * FROM shop.orders ORDER BY id")
    assert target.sql("SELECT * FROM shop.orders ORDER BY id") == rows
    assert target.sql("SELECT * FROM shop_by_airflow.orders ORDER BY id") == rows

    reader.follow("docs/cut-over.md")
    reader.follow("docs/cluster.md")
    reader.repair()
    days_of_work(reader, monkeypatch)
    assert f'"{TWO_SOURCES}"' in (ROOT / "tests" / "e2e" / "test_dmctl_run.py").read_text()
    reader.done.add(TWO_SOURCES)
    documented = {shlex.join(one) for block in blocks() if block.kind == "bash" for one in commands(block)}
    left = {one for one in documented - reader.done if shlex.split(one)[0] not in OF_THE_SHELL}
    assert [one for one in sorted(left) if not any(re.fullmatch(known, one) for known in NOT_EXECUTED)] == []
    assert [known for known in NOT_EXECUTED if not any(re.fullmatch(known, one) for one in left)] == []

    reader.printed += "".join(capsys.readouterr())
    assert [secret for secret in SECRETS if secret in reader.printed] == []
    written_by_hand = {"mysql-01.yaml", "orders.yaml", "target.json", "meta.json", "of-dm.yaml"}
    leaks = {
        file.name
        for file in tmp_path.rglob("*")
        if file.is_file()
        # The source's CREATE USER is in its binlog; `dm` is the environment.
        and not {"relay", "replaced", "dm"} & {*file.relative_to(tmp_path).parts}
        and any(secret.encode() in file.read_bytes() for secret in SECRETS)
    }
    assert leaks == written_by_hand


def days_of_work(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Execute the commands of the other pages, in this process, on the task and the source of the first hour."""
    source, work = reader.servers["source"], reader.home / ".local" / "state" / "airflow-provider-dm"
    ours = {"DM_WORK_DIR": str(work), "DM_META_URL": f"sqlite:///{work / 'meta.db'}"}
    for name, value in (reader.environment | ours).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(reader.home)
    monkeypatch.setattr(task_control, "OBEY_SECONDS", 300.0)  # a run that has just begun takes its time here

    def do(command: str, *, instead: Mapping[str, str] = {}, code: int = 0) -> None:
        """Execute a documented command. `instead`: this test's values for the names on the page."""
        reader.done.add(shlex.join(shlex.split(command)))
        for shown, real in instead.items():
            command = command.replace(shown, real)
        program, *words = shlex.split(command)
        if program == "dmctl":
            assert main(words) == code, command
            return
        arguments = get_parser().parse_args(words)
        with pytest.raises(SystemExit) as ended:
            arguments.func(arguments)
        assert ended.value.code == code, command

    # A task in the background, and a DDL statement that stops it.
    do("dmctl start-task orders.yaml -s mysql-01.yaml")
    file, place = source.log_end()
    source.sql("INSERT INTO shop.orders VALUES (3, 'c')")
    do(
        "dmctl binlog events --source-file mysql-01.yaml --from mysql-bin.000003:4711 --table shop.orders --rows",
        instead={"mysql-bin.000003:4711": f"{file}:{place}"},
    )
    do("airflow dm pause-task orders")
    do("airflow dm resume-task orders")
    do("dmctl pause-task orders")
    do("dmctl resume-task orders")
    for page in ("airflow dm query-status", "airflow dm query-status orders", "airflow dm shard-ddl-lock"):
        do(page)
    do("airflow dm doctor")
    do("airflow dm meta migrate")
    do("dmctl shard-ddl-lock orders")
    target = reader.servers["target"]
    wait_for(lambda: target.sql("SELECT COUNT(*) FROM shop.orders")[0][0] == 3)
    source.sql("ALTER TABLE shop.orders ADD COLUMN address INET6")
    wait_for(lambda: main(["binlog", "skip", "orders", "-s", "mysql-01"]) == 0)
    do("dmctl query-status orders")
    do("dmctl binlog skip orders -s mysql-01")
    do('dmctl binlog replace orders -s mysql-01 "ALTER TABLE shop.orders ADD COLUMN note text"')
    do('dmctl binlog inject orders -s mysql-01 "DROP TABLE shop.old"')
    do("dmctl binlog list orders")
    do("dmctl binlog revert orders -s mysql-01")
    do("dmctl stop-task orders -s mysql-01")

    # Two sources have made different DDL.
    with MetaStore.open(f"sqlite:///{work / 'meta.db'}") as store:
        made = [
            DdlInfo(source, (f"ALTER TABLE `shop`.`orders` ADD COLUMN `city` varchar({size})",))
            for source, size in (("mysql-01", 20), ("mysql-02", 40))
        ]
        table, both = TableName("shop", "orders"), {"mysql-01", "mysql-02"}
        lock = reported(reported(None, "orders", table, 0, made[0], both), "orders", table, 0, made[1], both)
        store.change_ddl_lock("orders", "orders-`shop`.`orders`", 0, lambda _: lock.to_json())
    do("dmctl shard-ddl-lock unlock 'orders-`shop`.`orders`' --owner mysql-02")
    do("dmctl shard-ddl-lock unlock 'orders-`shop`.`orders`' --action skip")

    (reader.home / "orders.sql").write_text("CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(20))")
    do("dmctl binlog-schema list orders.yaml")
    do("dmctl binlog-schema get orders.yaml shop orders")
    do("dmctl binlog-schema update orders.yaml shop orders orders.sql -s mysql-01")
    do("dmctl binlog-schema update orders.yaml shop orders --from-source --source-file mysql-01.yaml")
    do("dmctl binlog-schema update orders.yaml shop orders --from-target")
    do("dmctl binlog-schema delete orders.yaml shop orders")

    # A relay in another terminal.
    start = "dmctl start-relay -s mysql-01 --source-file mysql-01.yaml"
    relay = subprocess.Popen(shlex.split(start), cwd=reader.home, env=reader.environment | ours, stderr=subprocess.PIPE)
    reader.done.add(start)
    try:
        for _ in range(3):
            source.sql("FLUSH BINARY LOGS")
        newest = source.log_end()[0]
        folder = work / "relay" / "mysql-01"
        wait_for(lambda: list(folder.glob(f"*/{newest}")))
        sub_dir = next(folder.glob("*.000001")).name
        names = {"mysql-bin.000006": newest, "mysql-bin.000003": newest, "mysql-bin.000007": newest}
        names["7e427cc0-….000001"] = sub_dir
        do("dmctl query-status -s mysql-01")
        do("airflow dm purge-relay -s mysql-01 --filename mysql-bin.000007 --dry-run", instead=names)
        do("dmctl purge-relay -s mysql-01 --filename mysql-bin.000006 --dry-run", instead=names)
        do("dmctl purge-relay -s mysql-01 --filename mysql-bin.000006", instead=names)
        do("dmctl purge-relay -s mysql-01 --filename mysql-bin.000003 --sub-dir 7e427cc0-….000001", instead=names)
        do("dmctl purge-relay -s mysql-01 --time '2026-11-01 00:00:00'")
        do("dmctl purge-relay -s mysql-01 --inactive")
        do("dmctl stop-relay -s mysql-01")
        assert relay.wait(240) == 0
    finally:
        relay.kill()
        relay.communicate()
    (reader.home / "replaced").mkdir()
    folder.rename(reader.home / "replaced" / "mysql-01")
    reader.done.add(shlex.join(["mv", "<relay-dir>", "/somewhere/else/"]))

    exported = reader.home / "configs" / "sources"
    exported.mkdir(parents=True)
    of_dm = (reader.home / "mysql-01.yaml").read_text().replace("source-id: mysql-01", "source-id: of-dm")
    (exported / "of-dm.yaml").write_text(of_dm)
    reader.run(Block(ROOT, "bash", "", "dmctl config import --dir configs"))  # it starts a program of Airflow
