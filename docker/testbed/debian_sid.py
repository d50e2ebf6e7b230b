"""Servers from Debian's unstable suite, run on any Debian without touching the system.

Debian stable has no MySQL server and an older MariaDB; unstable has both. Packages are downloaded through an apt of our
own (own state, cache and source list, checked against the Debian archive keyring) from the mirror that this host
already uses, and unpacked into one folder, C library and loader included. A server is then started by that loader, so
that it never meets the host's older libraries.

The folder is kept in the cache. One that is there is used as it is: the suite moves on, a test run should not.
`DM_MYSQL_REFRESH=1` (or `DM_MARIADB_REFRESH=1`) looks for a newer one; `DM_DEBIAN_MIRROR` names a mirror where the
host's sources name none."""

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
from testbed.unavailable import ServerUnavailable

SUITE: Final = "sid"
# No server runs perl; their helper scripts do, and we start none of them. Leaving perl out halves MySQL's download.
LEFT_OUT: Final = re.compile(r"perl(-.*)?|libperl.*|lib.*-perl|debconf.*")
KEYRINGS: Final = (
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
)
DEPENDS: Final = ("--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces")


@dataclass(frozen=True)
class Product:
    """The packages to take from the suite. `name` begins the cache's folders; the first of `packages` gives the
    version.
    """

    name: str
    packages: tuple[str, ...]
    unavailable: type[ServerUnavailable]


@dataclass(frozen=True)
class Tree:
    """An unpacked product: a folder and the version it was made from."""

    product: Product
    root: Path
    version: str

    @property
    def libraries(self) -> Path:
        return self.one("usr/lib/*/libc.so.6").parent

    def command(self, program: str) -> list[str]:
        """Return the beginning of the argv that runs `program` (mysqld, mysqlbinlog, mariadbd …) by its own loader."""
        where = next((d for d in ("sbin", "bin") if (self.root / "usr" / d / program).exists()), None)
        if where is None:
            raise self.product.unavailable(f"{self.root} has no program {program}")
        loader = self.one("usr/lib/*/ld-linux*.so.*")
        return [str(loader), "--library-path", str(self.libraries), str(self.root / "usr" / where / program)]

    def one(self, pattern: str) -> Path:
        """Return the first path below `root` that fits."""
        found = sorted(self.root.glob(pattern))
        if not found:
            raise self.product.unavailable(f"{self.root} holds no {pattern}; remove the folder, it is fetched again")
        return found[0]


def tree(product: Product) -> Tree:
    """Return the product's folder in the cache, fetched first where there is none. Raises ServerUnavailable (its own
    kind).
    """
    refresh = os.environ.get(f"DM_{product.name.upper()}_REFRESH") == "1"
    if not refresh and (cached := newest_cached(product)):
        return cached
    with cache.locked(product.name):
        if not refresh and (cached := newest_cached(product)):
            return cached
        try:
            return _fetch(product)
        except _Failed as error:
            raise product.unavailable(str(error)) from None


def newest_cached(product: Product) -> Tree | None:
    prefix = f"{product.name}-"
    folders = [path for path in cache.cache_root().glob(f"{prefix}[0-9]*") if path.is_dir()]
    trees = [Tree(product, path, path.name.removeprefix(prefix)) for path in folders]
    return max(trees, key=lambda found: _version_key(found.version), default=None)


class _Failed(RuntimeError):
    """The reason why nothing was fetched."""


def _fetch(product: Product) -> Tree:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise _Failed("it is taken from Debian's packages, and this host has no apt-get and dpkg")
    keyring = next((k for k in KEYRINGS if k.exists()), None)
    if keyring is None:
        raise _Failed("no Debian archive keyring (apt-get install debian-archive-keyring)")
    with tempfile.TemporaryDirectory(prefix="dm-apt-") as scratch:
        apt = _PrivateApt(Path(scratch), mirror=_debian_mirror(), keyring=keyring)
        apt.update()
        version = _plain(apt.candidate(product.packages[0]))
        root = cache.entry(f"{product.name}-{version}", lambda folder: apt.unpack(product.packages, folder))
    return Tree(product, root, version)


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
            raise _Failed(f"Debian unstable has no {package} for this architecture")
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
    """Return the mirror this host installs Debian from: the source that serves the host's own release, part main."""
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
    raise _Failed("the host's apt sources name no Debian mirror (set DM_DEBIAN_MIRROR)")


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
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise _Failed(f"{doing}: {argv[0]} failed: {lines[-1] if lines else f'exit code {done.returncode}'}")
    return done.stdout


def _plain(version: str) -> str:
    return re.sub(r"[^0-9A-Za-z.+~-]", "_", version.rpartition(":")[2])


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
