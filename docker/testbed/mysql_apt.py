"""MySQL from Debian's unstable suite, run on any Debian without touching the system.

Debian stable carries no MySQL server, unstable does. Its packages are downloaded through an apt of our own (own state,
cache and source list, checked against the Debian archive keyring) from the mirror that this host already uses, and
unpacked into one folder, C library and loader included. The server is then started by that loader, so that it never
meets the host's older libraries.

The folder is kept in the cache. One that is there is used as it is: the suite moves on, a test run should not.
`DM_MYSQL_REFRESH=1` looks for a newer one; `DM_DEBIAN_MIRROR` names a mirror where the host's sources name none."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testbed import cache
from testbed.unavailable import MysqlUnavailable

SUITE: Final = "sid"
PACKAGES: Final = ("mysql-server-core", "mysql-client-core")
# mysqld runs no perl; its helper scripts do, and we start none of them. Leaving perl out halves the download.
LEFT_OUT: Final = re.compile(r"perl(-.*)?|libperl.*|lib.*-perl|debconf.*")
KEYRINGS: Final = (
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
)
DEPENDS: Final = ("--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces")


@dataclass(frozen=True)
class MysqlTree:
    """An unpacked MySQL: a folder and the version it was made from."""

    root: Path
    version: str

    @property
    def libraries(self) -> Path:
        return _one(self.root, "usr/lib/*/libc.so.6").parent

    def command(self, program: str) -> list[str]:
        """The beginning of the argv that runs `program` (mysqld, mysql, mysqlbinlog, mysqldump …) by its own loader."""
        where = next((d for d in ("sbin", "bin") if (self.root / "usr" / d / program).exists()), None)
        if where is None:
            raise MysqlUnavailable(f"{self.root} has no program {program}")
        loader = _one(self.root, "usr/lib/*/ld-linux*.so.*")
        return [str(loader), "--library-path", str(self.libraries), str(self.root / "usr" / where / program)]

    def server_options(self) -> list[str]:
        """Options that any mysqld of this tree needs, because it stands where no mysqld expects to be."""
        return [
            f"--basedir={self.root / 'usr'}",
            f"--lc-messages-dir={self.root / 'usr/share/mysql'}",
            f"--plugin-dir={self.root / 'usr/lib/mysql/plugin'}",
            "--secure-file-priv=",  # else it aborts, missing the folder /var/lib/mysql-files
            "--mysqlx=OFF",
        ]


def mysql_tree() -> MysqlTree:
    """The MySQL in the cache, fetched first where there is none. Raises MysqlUnavailable."""
    refresh = os.environ.get("DM_MYSQL_REFRESH") == "1"
    if not refresh and (cached := newest_cached()):
        return cached
    with cache.locked("mysql"):
        if not refresh and (cached := newest_cached()):
            return cached
        return _fetch()


def newest_cached() -> MysqlTree | None:
    trees = [MysqlTree(p, p.name.removeprefix("mysql-")) for p in cache.cache_root().glob("mysql-[0-9]*") if p.is_dir()]
    return max(trees, key=lambda tree: _version_key(tree.version), default=None)


def _fetch() -> MysqlTree:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise MysqlUnavailable("it is taken from Debian's packages, and this host has no apt-get and dpkg")
    keyring = next((k for k in KEYRINGS if k.exists()), None)
    if keyring is None:
        raise MysqlUnavailable("no Debian archive keyring (apt-get install debian-archive-keyring)")
    with tempfile.TemporaryDirectory(prefix="dm-apt-") as scratch:
        apt = _PrivateApt(Path(scratch), mirror=_debian_mirror(), keyring=keyring)
        apt.update()
        version = apt.candidate(PACKAGES[0])
        root = cache.entry(f"mysql-{_plain(version)}", lambda folder: apt.unpack(PACKAGES, folder))
    return MysqlTree(root, _plain(version))


class _PrivateApt:
    """An apt whose every path lies in one folder: it reads and changes nothing of the host's."""

    def __init__(self, root: Path, *, mirror: str, keyring: Path) -> None:
        self.root = root
        for folder in ("lists/partial", "archives/partial", "etc/preferences.d", "etc/trusted.gpg.d", "debs"):
            (root / folder).mkdir(parents=True)
        (root / "status").touch()  # nothing is installed: the closure then is the whole closure
        (root / "sources.list").write_text(f"deb [signed-by={keyring}] {mirror} {SUITE} main\n")
        settings = {
            "Dir::State": root,
            "Dir::State::Lists": root / "lists",
            "Dir::State::status": root / "status",
            "Dir::Cache": root,
            "Dir::Cache::archives": root / "archives",
            "Dir::Etc::SourceList": root / "sources.list",
            "Dir::Etc::SourceParts": "-",
            "Dir::Etc::Preferences": "-",
            "Dir::Etc::PreferencesParts": root / "etc/preferences.d",
            "Dir::Etc::TrustedParts": root / "etc/trusted.gpg.d",
            "APT::Sandbox::User": "",  # the sandbox user may not enter our private folder
            "APT::Default-Release": "",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            # A snapshot of the archive, or a mirror that lags, will do for throw-away servers; signatures are checked.
            "Acquire::Check-Valid-Until": "false",
            "APT::Update::Error-Mode": "any",  # a mirror that cannot be reached is only a warning otherwise
        }
        self.options = [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]

    def update(self) -> None:
        self._run("apt-get", "-q", "update", doing="reading the package lists of Debian unstable")

    def candidate(self, package: str) -> str:
        shown = self._run("apt-cache", "policy", package, doing=f"looking for {package}")
        found = re.search(r"Candidate: (\S+)", shown)
        if found is None or found[1] == "(none)":
            raise MysqlUnavailable(f"Debian unstable has no {package} for this architecture")
        return found[1]

    def unpack(self, packages: Sequence[str], into: Path) -> None:
        names = self._closure(packages)
        self._run(
            "apt-get", "-q", "download", *names, doing=f"downloading {len(names)} packages", cwd=self.root / "debs"
        )
        for deb in sorted((self.root / "debs").glob("*.deb")):
            _checked(["dpkg", "-x", str(deb), str(into)], doing=f"unpacking {deb.name}")

    def _closure(self, packages: Sequence[str]) -> list[str]:
        listed = self._run("apt-cache", "depends", *DEPENDS, "--no-enhances", *packages, doing="resolving dependencies")
        # Real packages stand at the start of a line; virtual ones are in <angle brackets>.
        names = {line for line in listed.splitlines() if line and not line[0].isspace() and not line.startswith("<")}
        wanted = sorted(name for name in names if not LEFT_OUT.fullmatch(name))
        shown = self._run("apt-cache", "policy", *wanted, doing="finding the versions")
        absent = {m[1] for m in re.finditer(r"^(\S+):\n  Installed: .*\n  Candidate: \(none\)", shown, re.MULTILINE)}
        return [name for name in wanted if name not in absent]

    def _run(self, program: str, *arguments: str, doing: str, cwd: Path | None = None) -> str:
        return _checked([program, *self.options, *arguments], doing=doing, cwd=cwd)


def _debian_mirror() -> str:
    """The mirror this host installs Debian from: the source that serves the host's own release, part main."""
    if mirror := os.environ.get("DM_DEBIAN_MIRROR"):
        return mirror
    release = re.search(r"^VERSION_CODENAME=\"?(\w+)", _os_release(), re.MULTILINE)
    suites = {"stable", "testing", "unstable", "sid", release[1] if release else "sid"}
    wanted = "$(SITE)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
    listed = _checked(["apt-get", "indextargets", "--format", wanted, "Created-By: Packages"], doing="reading sources")
    for line in listed.splitlines():
        site, _, suite, component = line.split("|")
        if suite in suites and component == "main" and "ID=debian" in _os_release().splitlines():
            return site
    raise MysqlUnavailable("the host's apt sources name no Debian mirror (set DM_DEBIAN_MIRROR)")


def _os_release() -> str:
    try:
        return Path("/etc/os-release").read_text()
    except OSError:
        return ""


def _checked(argv: Sequence[str], *, doing: str, cwd: Path | None = None) -> str:
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        argv, check=False, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise MysqlUnavailable(f"{doing}: {argv[0]} failed: {said[-1] if said else f'exit code {done.returncode}'}")
    return done.stdout


def _one(root: Path, pattern: str) -> Path:
    found = sorted(root.glob(pattern))
    if not found:
        raise MysqlUnavailable(f"{root} holds no {pattern}; remove the folder, it is fetched again")
    return found[0]


def _plain(version: str) -> str:
    return re.sub(r"[^0-9A-Za-z.+~-]", "_", version.rpartition(":")[2])


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
