"""A private server: starts, queries, stops, kills and restarts it.

    with running_servers([ServerSpec("one", "mariadb"), ServerSpec("two", "mysql")]) as (one, two):
        one.sql("CREATE DATABASE shop")

Every server listens on 127.0.0.1 only, on a port that was free; `root` has the empty password over TCP and
over the socket; row format, full row images, GTIDs on; default character set utf8mb4; commits survive a kill of the
process, not of the machine. An option given in the spec comes last and takes precedence. TiDB (`tidb`), which writes no
binlog, is a target only.

Layout of the folder: `<root>/<name>/{data/,error.log,server.json,hostile.sql,run -> a short folder for the socket}`.
Data directories are copied from an initialised template in the cache, which saves seconds for each server."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import pymysql
from pymysql.constants import CLIENT

from testbed import cache, hostile, keeper
from testbed.build import Build, Initialisation
from testbed.mariadb11_apt import mariadb11_build
from testbed.mariadb_apt import mariadb_build
from testbed.mysql_apt import mysql_build
from testbed.ports import HOST, free_ports
from testbed.tidb import config_file, tidb_argv, tidb_build, tidb_config
from testbed.unavailable import ServerUnavailable
from testbed.watched import watch

Flavour = Literal["mariadb", "mysql", "tidb"]
FLAVOURS: Final[tuple[Flavour, ...]] = ("mariadb", "mysql")
Series = Literal["", "11"]
"""Which server of a flavour; "" is the one that a test gets who asks for none."""
BUILDS: Final[dict[tuple[Flavour, Series], Callable[[], Build]]] = {
    ("mariadb", ""): mariadb_build,
    ("mariadb", "11"): mariadb11_build,
    ("mysql", ""): mysql_build,
    ("tidb", ""): tidb_build,
}
START_SECONDS: Final = 240
STOP_SECONDS: Final = 60

COMMON_OPTIONS: Final = (
    f"--bind-address={HOST}",
    "--skip-name-resolve",
    "--character-set-server=utf8mb4",
    "--max-connections=400",
    "--max-allowed-packet=64M",
    "--innodb-buffer-pool-size=128M",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-stats-persistent=OFF",
)
BINLOG_OPTIONS: Final = ("--log-bin=mysql-bin", "--binlog-format=ROW", "--binlog-row-image=FULL", "--sync-binlog=0")
FLAVOUR_OPTIONS: Final[dict[Flavour, tuple[str, ...]]] = {
    # Our tests kill processes, not machines: what a server has written outlives it, and DDL needs no disk.
    "mariadb": (
        *("--gtid-strict-mode=1", "--collation-server=utf8mb4_general_ci"),
        *("--debug-no-sync=1", "--innodb-flush-method=nosync"),
    ),
    # No test reads the performance schema: without it a server takes half the memory, and starts sooner. The event
    # scheduler, which MariaDB has not on, takes a processor for itself for as long as a shutdown waits for clients.
    "mysql": (
        *("--gtid-mode=ON", "--enforce-gtid-consistency=ON"),
        *("--performance-schema=OFF", "--innodb-flush-method=nosync", "--event-scheduler=OFF"),
        # Small tables need no threads side by side: DDL takes a tenth less processor time without.
        *("--loose-innodb-ddl-threads=1", "--loose-innodb-parallel-read-threads=1", "--innodb-purge-threads=1"),
        *("--innodb-read-io-threads=1", "--innodb-write-io-threads=1"),
    ),
}
NO_BINLOG_OPTIONS: Final[dict[Flavour, tuple[str, ...]]] = {"mariadb": (), "mysql": ("--skip-log-bin",)}


class ServerStartFailed(RuntimeError):
    """A server that is installed did not start. The message ends with what its log says."""


@dataclass(frozen=True)
class ServerSpec:
    """The description of a server to start. `binlog=False` is a server that can only be a target (or shows the error of
    a source without).
    """

    name: str
    flavour: Flavour
    options: tuple[str, ...] = ()
    binlog: bool = True
    series: Series = ""
    hostile: bool = field(default_factory=lambda: os.environ.get("DM_HOSTILE_SERVERS") == "1")
    """Whether the server has unusual global settings (module `hostile`)."""
    zone: str = ""
    """The time zone of the machine, as the environment variable TZ names it; "": this machine's."""

    @property
    def lasting(self) -> tuple[str, ...]:
        """The options that a data directory keeps from its beginning, as MySQL's does."""
        chosen = self.options if self.flavour == "mysql" else ()
        return tuple(one for one in chosen if one.startswith("--lower-case-table-names="))

    def build(self) -> Build:
        """Return the build of this flavour and series. Raises ServerUnavailable."""
        return BUILDS[self.flavour, self.series]()


@dataclass(eq=False)
class Server:
    """One running (or killed, or stopped) server. Only `pid` ever changes."""

    name: str
    flavour: Flavour
    version: str
    home: Path
    socket: Path
    port: int
    argv: tuple[str, ...]
    host: str = HOST
    user: str = "root"
    password: str = ""
    pid: int = 0
    hostile: bool = False
    zone: str = ""
    _process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def datadir(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        return self.home / "error.log"

    @property
    def server_id(self) -> int:
        return self.port  # unique on this host for as long as the server has the port

    # Queries

    def client_config(self) -> dict[str, Any]:
        """Return host, port, user and password, as PyMySQL and most others name them; and what calms a hostile
        server.
        """
        login = {"host": self.host, "port": self.port, "user": self.user, "password": self.password}
        if not self.hostile or self.flavour == "tidb":
            return login
        return {**login, "init_command": hostile.calming(self.flavour)}

    def connect(self, **options: Any) -> "pymysql.connections.Connection[Any]":
        """Open a PyMySQL connection as root, in autocommit mode and without TLS unless the options say otherwise.

        MySQL offers TLS to every client, and the handshake costs both sides three times the rest of a login.
        """
        defaults = {**self.client_config(), "charset": "utf8mb4", "autocommit": True, "connect_timeout": 10}
        return pymysql.connect(**{**defaults, "ssl_disabled": True, **options})

    def sql(
        self, text: str, args: Sequence[Any] | None = None, *, database: str | None = None
    ) -> list[tuple[Any, ...]]:
        """Run one or more statements, separated by `;`, as root. Gives the rows of the last one.

        Without `args`, `%` is an ordinary character."""
        with self.connect(database=database, client_flag=CLIENT.MULTI_STATEMENTS) as connection:
            cursor = connection.cursor()
            cursor.execute(text, args)
            rows = list(cursor.fetchall())
            while cursor.nextset():
                rows = list(cursor.fetchall())
            return rows

    def create_user(self, name: str, password: str, *, privileges: str = "ALL PRIVILEGES", plugin: str = "") -> None:
        """Create an account `name`@'%' with `privileges` on everything, anew when it exists."""
        how = f"IDENTIFIED WITH {plugin} BY '{password}'" if plugin else f"IDENTIFIED BY '{password}'"
        self.sql(
            f"DROP USER IF EXISTS '{name}'@'%'; CREATE USER '{name}'@'%' {how};"
            f"GRANT {privileges} ON *.* TO '{name}'@'%'"
        )

    # Starting and stopping

    def alive(self) -> bool:
        if self._process is not None and self._process.pid == self.pid:
            return self._process.poll() is None
        return self.pid in keeper.servers_under(self.home)

    def start(self) -> None:
        """Start the server again with the same port and data. Returns when it answers."""
        if self.alive():
            return
        environment = {**os.environ, "TZ": self.zone} if self.zone else None
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
                env=environment,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._remember()
        self._wait_until_it_answers()

    def stop(self) -> None:
        """Stop it by an orderly shutdown."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it with kill -9: the server gets no chance to write anything."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Restart it: an orderly stop where it still runs, then a start."""
        self.stop()
        self.start()

    def _end(self, by: signal.Signals) -> None:
        if not self.alive():
            return
        os.kill(self.pid, by)
        if not _wait_for(lambda: not self.alive(), seconds=STOP_SECONDS):
            os.kill(self.pid, signal.SIGKILL)
            _wait_for(lambda: not self.alive(), seconds=STOP_SECONDS)

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if not self.alive():
                raise ServerStartFailed(
                    f"{self.flavour} server {self.name} ended at start. {self.log} says:\n{self.tail()}"
                )
            try:
                self.connect(unix_socket=str(self.socket)).close()
                return
            except pymysql.err.OperationalError:
                time.sleep(0.05)
        self.kill()
        raise ServerStartFailed(
            f"{self.flavour} server {self.name} gave no answer in {START_SECONDS} s:\n{self.tail()}"
        )

    def log_end(self) -> tuple[str, int]:
        """Return the newest binlog file and its length. `SHOW MASTER STATUS` has another name in MySQL from 8.2 on."""
        file, position, *_ = self.sql("SHOW BINARY LOGS")[-1]
        return str(file), int(position)

    def reset_log(self) -> None:
        """Remove all binlog files and begin anew: RESET MASTER, which has another name in MySQL from 8.2 on."""
        is_new = self.flavour == "mysql" and tuple(map(int, self.version.split(".")[:2])) >= (8, 2)
        self.sql("RESET BINARY LOGS AND GTIDS" if is_new else "RESET MASTER")

    def tail(self, lines: int = 25) -> str:
        """Return the end of its log."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError as error:
            return f"(no log: {error})"

    def _remember(self) -> None:
        state = {
            "name": self.name,
            "flavour": self.flavour,
            "version": self.version,
            "socket": str(self.socket),
            "port": self.port,
            "argv": self.argv,
            "pid": self.pid,
            "hostile": self.hostile,
            "zone": self.zone,
        }
        fresh = self.home / "server.json.new"
        fresh.write_text(json.dumps(state, indent=1))
        fresh.rename(self.home / "server.json")


# Several servers


def start_servers(specs: Sequence[ServerSpec], root: Path, *, keep: bool = False) -> list[Server]:
    """Start all of them at once, in the order of the specs; all or none.

    They end with this process, unless `keep`: then `stop_servers(attach_servers(root))` ends them.
    Raises ServerUnavailable (a flavour is not available here) or ServerStartFailed."""
    root = root.resolve()
    root.mkdir(parents=True, exist_ok=True)
    for spec in {(spec.flavour, spec.series, spec.lasting): spec for spec in specs}.values():
        _template(spec)  # step 1: what all servers of a kind share, once
    if not keep:
        watch(root, keeper)  # step 2: before anything runs
    ports = free_ports(len(specs))
    with ThreadPoolExecutor(max_workers=max(1, len(specs))) as pool:
        futures = [
            pool.submit(_start_one, spec, root / spec.name, port) for spec, port in zip(specs, ports, strict=True)
        ]
    failed = [error for future in futures if (error := future.exception())]
    started = [future.result() for future in futures if future.exception() is None]
    if failed:
        stop_servers(started)
        raise failed[0]
    return started


def stop_servers(servers: Sequence[Server], *, keep_logs: bool = False) -> None:
    """Kill the servers and remove their folders; with `keep_logs`, all but the logs."""
    for server in servers:
        server.kill()
        _remove_data(server)
        if not keep_logs:
            shutil.rmtree(server.home, ignore_errors=True)


def attach_servers(root: Path) -> list[Server]:
    """Return the servers that some earlier process started in `root` with `keep`, running or not."""
    found = []
    for state in sorted(root.resolve().glob("*/server.json")):
        known = json.loads(state.read_text())
        known["argv"], known["socket"] = tuple(known["argv"]), Path(known["socket"])
        found.append(Server(home=state.parent, **known))
    return found


@contextmanager
def running_servers(specs: Sequence[ServerSpec], root: Path | None = None) -> Iterator[list[Server]]:
    """Run servers for the length of a block. When the block fails, their logs are kept and their folder is printed."""
    folder = root or Path(tempfile.mkdtemp(prefix="dm-servers-"))
    servers = start_servers(specs, folder)
    try:
        yield servers
    except BaseException:
        stop_servers(servers, keep_logs=True)
        print(f"server logs are kept in {folder}", file=sys.stderr)
        raise
    stop_servers(servers)
    if root is None:
        shutil.rmtree(folder, ignore_errors=True)


def available(flavour: Flavour, series: Series = "") -> ServerUnavailable | None:
    """Return None when servers of this kind can be started here, else why not."""
    try:
        BUILDS[flavour, series]()
    except ServerUnavailable as reason:
        return reason
    return None


# One server


def _start_one(spec: ServerSpec, home: Path, port: int) -> Server:
    spec = replace(spec, hostile=spec.hostile and spec.flavour != "tidb")  # it has no such settings so far
    if (home / "server.json").exists():
        raise ServerStartFailed(f"{home} already holds a server")
    home.mkdir(parents=True, exist_ok=True)
    run = Path(tempfile.mkdtemp(prefix="dm-"))  # a socket's path may have 107 bytes, test folders are longer
    (home / "run").unlink(missing_ok=True)
    (home / "run").symlink_to(run)
    (home / "tmp").mkdir(exist_ok=True)
    if spec.flavour == "tidb":
        config_file(home).write_text(tidb_config(home))
    elif spec.hostile:
        _init_file(home / "data").write_text(hostile.init_file(spec.flavour))
    _copy(_template(spec), home / "data")
    server = Server(
        name=spec.name,
        flavour=spec.flavour,
        version=spec.build().version,
        home=home,
        socket=run / "s",
        port=port,
        argv=tuple(_argv(spec, home / "data", run / "s", port)),
        hostile=spec.hostile,
        zone=spec.zone,
    )
    try:
        server.start()
        _open_to_tcp(server)
    except BaseException:
        server.kill()
        _remove_data(server)
        raise
    return server


def _argv(spec: ServerSpec, datadir: Path, socket: Path, port: int) -> list[str]:
    if spec.flavour == "tidb":
        return [*tidb_argv(spec.build().argv, datadir.parent, socket, HOST, port), *spec.options]
    binlog = BINLOG_OPTIONS + FLAVOUR_OPTIONS[spec.flavour] if spec.binlog else NO_BINLOG_OPTIONS[spec.flavour]
    return [
        *spec.build().argv,
        *_user(),
        f"--datadir={datadir}",
        f"--socket={socket}",
        f"--pid-file={datadir.parent / 'server.pid'}",
        # A server that starts removes all temporary tables of its tmpdir, also those of a neighbour.
        f"--tmpdir={datadir.parent / 'tmp'}",
        f"--port={port}",
        f"--server-id={port}",
        *COMMON_OPTIONS,
        *([f"--init-file={_init_file(datadir)}"] if spec.hostile else []),
        *binlog,
        *spec.options,
    ]


def _init_file(datadir: Path) -> Path:
    return datadir.parent / "hostile.sql"


def _user() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


def _open_to_tcp(server: Server) -> None:
    """Create an account for TCP: names are not resolved, so `root`@localhost is the socket's only. Not written to the
    binlog.
    """
    if server.flavour == "tidb":
        return  # its root is `root`@'%'
    with server.connect(unix_socket=str(server.socket)) as connection:
        cursor = connection.cursor()
        cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute(f"CREATE USER IF NOT EXISTS 'root'@'{HOST}' IDENTIFIED BY ''")
        cursor.execute(f"GRANT ALL PRIVILEGES ON *.* TO 'root'@'{HOST}' WITH GRANT OPTION")
        if server.flavour == "mariadb":
            # Anonymous accounts at localhost would take precedence over a 'name'@'%' of the tests.
            cursor.execute("SELECT Host FROM mysql.user WHERE User = ''")
            for (host,) in cursor.fetchall():
                cursor.execute(f"DROP USER ''@'{host}'")


# The template


def _template(spec: ServerSpec) -> Path | None:
    """Return an initialised, never started data directory of this flavour and version, from the cache.

    None: it needs none.
    """
    build = spec.build()
    if build.initialise is None:
        return None
    initialise = build.initialise
    return cache.entry(
        "-".join((f"datadir-{spec.flavour}-{build.version}", *(one.strip("-") for one in spec.lasting))),
        lambda folder: _initialised(build, initialise(folder), folder, spec.lasting),
    )


def _initialised(build: Build, how: Initialisation, folder: Path, options: Sequence[str]) -> None:
    argv, stdin = how
    done = subprocess.run(
        [*argv, *options, *_user()],
        check=False,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise ServerStartFailed(f"initialising a data directory of {build.version} failed:\n{done.stdout[-4000:]}")
    (folder / "auto.cnf").unlink(missing_ok=True)  # every copy is a server of its own and draws its own uuid


def _copy(template: Path | None, datadir: Path) -> None:
    if template is None:
        datadir.mkdir()
        return
    # cp, because it keeps holes and clones blocks where the file system can: most of a fresh datadir is empty log.
    subprocess.run(["cp", "-a", "--sparse=always", "--reflink=auto", str(template), str(datadir)], check=True)


def _remove_data(server: Server) -> None:
    shutil.rmtree(server.datadir, ignore_errors=True)
    shutil.rmtree(server.home / "tmp", ignore_errors=True)
    shutil.rmtree(server.socket.parent, ignore_errors=True)
    (server.home / "run").unlink(missing_ok=True)
    (server.home / "server.json").unlink(missing_ok=True)


def _wait_for(condition: Callable[[], bool], *, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
