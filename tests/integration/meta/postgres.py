"""A private PostgreSQL: its own folder, port and process, ended with the tests, touching no installed cluster.

PostgreSQL refuses to run as root, so a root runs it as the account that its package made."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.ports import free_ports

ACCOUNT = "postgres"


def programs() -> Path | None:
    """The newest installed server's folder of programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    elsewhere = shutil.which("postgres")
    return Path(elsewhere).parent if elsewhere else None


@contextmanager
def running_postgres(bin_folder: Path) -> Iterator[str]:
    """The URL, without a database, of a server that trusts everybody on this host."""
    root = Path(tempfile.mkdtemp(prefix="dm-pg-"))
    data, (port,) = root / "data", free_ports(1)
    if os.geteuid() == 0:
        shutil.chown(root, ACCOUNT)
    identity = ["--reuid", ACCOUNT, "--regid", ACCOUNT, "--init-groups"] if os.geteuid() == 0 else []
    # setpriv: when this process is killed, the server gets SIGQUIT, an immediate shutdown.
    setpriv = ["setpriv", *identity, "--pdeathsig", "QUIT"]
    initdb = [str(bin_folder / "initdb"), "-D", str(data), "-U", "dm", "--auth=trust", "--no-sync", "--encoding=UTF8"]
    subprocess.run([*setpriv, *initdb, "--locale=C"], check=True, stdout=subprocess.DEVNULL, cwd=root)
    options = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": root, "fsync": "off"}
    arguments = [f"--{name}={value}" for name, value in options.items()]
    with open(root / "log", "wb") as log:
        server = subprocess.Popen(
            [*setpriv, str(bin_folder / "postgres"), "-D", str(data), *arguments], stderr=log, cwd=root
        )
    try:
        _wait_until_it_answers(bin_folder, port, server, root / "log")
        yield f"postgresql://dm@127.0.0.1:{port}"
    finally:
        server.send_signal(signal.SIGINT)  # by SIGTERM it would wait for clients to go
        server.wait(120)
        shutil.rmtree(root, ignore_errors=True)


def _wait_until_it_answers(bin_folder: Path, port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 180
    ask = [str(bin_folder / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    while subprocess.run(ask, check=False).returncode != 0:
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)
