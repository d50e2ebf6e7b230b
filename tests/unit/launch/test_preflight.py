"""Problems of a machine are reported before Spark is started, each with the command that repairs it."""

import base64
import hashlib
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_dm.engine.errors import NotInstalled
from airflow_provider_dm.launch.preflight import check_pyspark, find_java, java_major

CLIENT_VERSION_FILE = '__version__: str = "4.2.0"\n'


def fake_java(home: Path, banner: str) -> Path:
    """A `java` that prints `banner`, as an old installation would."""
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    return home


def install(site: Path, name: str, version: str, files: dict[str, str]) -> None:
    """Write a package as an installer does: files, then RECORD with their hashes. Existing files are overwritten."""
    lines = []
    for path, content in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}")
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "RECORD").write_text("\n".join([*lines, f"{info.name}/METADATA,,", f"{info.name}/RECORD,,"]))


def pyspark_files(version: str) -> dict[str, str]:
    return {"pyspark/version.py": f'__version__: str = "{version}"\n', "pyspark/worker.py": f"# {version}\n"}


# Java


@pytest.mark.parametrize(
    ("banner", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("Error: could not find libjava.so", None),
    ],
)
def test_the_major_version_is_read_from_the_banner(banner: str, major: int | None) -> None:
    assert java_major(banner) == major


def test_a_newer_java_on_the_path_is_preferred_to_an_old_or_missing_java_home(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "jdk8", 'java version "1.8.0_392"')
    new = fake_java(tmp_path / "jdk17", 'openjdk version "17.0.2"')

    for java_home in (old, tmp_path / "gone"):
        assert find_java({"JAVA_HOME": str(java_home), "PATH": str(new / "bin")}) == new


def test_without_a_java_of_today_the_remedy_and_old_ones_are_named(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "jdk11", 'openjdk version "11.0.2"')
    searched = r"\(searched: .*PATH.*apt-get install openjdk-17-jre-headless"

    with pytest.raises(NotInstalled, match=searched):
        find_java({"PATH": "/nowhere"})
    with pytest.raises(NotInstalled, match=r"Java 11 \(JAVA_HOME: .*jdk11/bin/java\)"):
        find_java({"JAVA_HOME": str(old), "PATH": "/nowhere"})


# pyspark


def test_the_installed_pyspark_is_one_pyspark_and_is_not_imported() -> None:
    code = (
        "import sys\n"
        "from airflow_provider_dm.launch.preflight import check_pyspark\n"
        "print(check_pyspark(), 'pyspark' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    version, imported = done.stdout.split()
    assert version.startswith("4.")
    assert imported == "False"


def test_the_pyspark_client_over_pyspark_is_detected(tmp_path: Path) -> None:
    for site, versions in (("over", ("4.2.0", "4.3.0")), ("under", ("4.3.0", "4.2.0"))):
        for version in versions:
            name = "pyspark" if version == "4.3.0" else "pyspark-client"
            install(tmp_path / site, name, version, pyspark_files(version))

    assert check_pyspark([str(tmp_path / "over")]) == "4.3.0"
    with pytest.raises(NotInstalled, match=r"pip install --no-deps --force-reinstall pyspark==4\.3\.0") as raised:
        check_pyspark([str(tmp_path / "under")])
    assert "2 of 2 files of pyspark 4.3.0" in str(raised.value)
    assert "pyspark/version.py; pyspark-client: 4.2.0" in str(raised.value)


def test_missing_files_of_pyspark_are_reported(tmp_path: Path) -> None:
    """Removed with pyspark-client, or never installed."""
    install(tmp_path / "removed", "pyspark", "4.3.0", pyspark_files("4.3.0"))
    (tmp_path / "removed" / "pyspark" / "worker.py").unlink()
    install(tmp_path / "client", "pyspark-client", "4.2.0", pyspark_files("4.2.0"))

    with pytest.raises(NotInstalled, match=r"1 of 2 files .*pyspark/worker\.py; pyspark-client: not installed"):
        check_pyspark([str(tmp_path / "removed")])
    with pytest.raises(NotInstalled, match=r"pyspark-client: 4\.2\.0"):
        check_pyspark([str(tmp_path / "client")])


def test_one_overwritten_file_of_pyspark_is_detected(tmp_path: Path) -> None:
    """The real distribution, copied as an installer lays it out, and one file of the client put over it."""
    import importlib.metadata as metadata

    real = metadata.distribution("pyspark")
    site = Path(str(real.locate_file("")))
    shutil.copytree(
        site / "pyspark", tmp_path / "pyspark", ignore=shutil.ignore_patterns("jars", "*.pyc", "bin", "*.zip")
    )
    info = f"pyspark-{real.version}.dist-info"
    shutil.copytree(site / info, tmp_path / info)
    assert check_pyspark([str(tmp_path)]) == real.version

    (tmp_path / "pyspark" / "version.py").unlink()
    (tmp_path / "pyspark" / "version.py").write_text(CLIENT_VERSION_FILE)

    with pytest.raises(NotInstalled, match=f"1 of [0-9]+ files of pyspark {real.version}"):
        check_pyspark([str(tmp_path)])
