"""The files around the code agree with each other: lock, pyproject, images."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "docker" / "requirements.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKED = dict(re.findall(r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?==([^\s;]+)", LOCK, re.MULTILINE))


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_locked_package_has_hashes() -> None:
    entries = re.split(r"\n(?=[A-Za-z0-9])", LOCK)
    assert len(LOCKED) > 100
    assert [e.splitlines()[0] for e in entries if "==" in e and "--hash=sha256:" not in e] == []


def test_the_lock_names_no_registry_and_no_folder_of_a_machine() -> None:
    assert (
        re.findall(r"(?:https?|file)://\S+|--(?:extra-)?index-url.*|--find-links.*|/(?:tmp|home|root|opt)/\S+", LOCK)
        == []
    )


def test_the_constraints_are_the_versions_of_the_lock() -> None:
    constraints = (ROOT / "docker" / "constraints.txt").read_text()
    lines = [line for line in constraints.splitlines() if not line.startswith("#")]
    locked = re.findall(r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?(==[^\\\n]+?) *\\?$", LOCK, re.MULTILINE)
    assert lines == ["".join(one) for one in locked]
    assert not re.search(r"sha256|://|--", constraints)


IMPORTED_AS = {
    "PyYAML": "yaml",
    "mysql-replication": "pymysqlreplication",
    "apache-airflow": "airflow",
    "apache-airflow-providers-apache-spark": "airflow.providers.apache.spark",
    # By its name in the metadata DB's URL.
    "psycopg": "postgresql+psycopg",
}


@pytest.mark.parametrize("extra", ["", "airflow", "spark", "postgres"])
def test_every_dependency_is_used(extra: str) -> None:
    project = PROJECT["project"]
    code = [file.read_text() for room in ("airflow_provider_dm", "spark_apps") for file in (ROOT / room).rglob("*.py")]
    for requirement in map(Requirement, project["optional-dependencies"][extra] if extra else project["dependencies"]):
        module = IMPORTED_AS.get(requirement.name, requirement.name.lower())
        used = re.compile(rf"^\s*(?:import|from) {re.escape(module)}\b|\"{re.escape(module)}\"", re.MULTILINE)
        assert any(used.search(text) for text in code), f"nothing imports {module} ({requirement})"


def test_the_lock_holds_one_pyspark() -> None:
    assert "pyspark" in LOCKED
    assert "pyspark-client" not in LOCKED
    (override,) = PROJECT["tool"]["uv"]["override-dependencies"]
    assert override in (ROOT / "docker" / "overrides.txt").read_text().splitlines()


@pytest.mark.parametrize("extra", ["", "airflow", "spark", "postgres", "dev"])
def test_the_lock_satisfies_the_project(extra: str) -> None:
    project = PROJECT["project"]
    wanted = project["optional-dependencies"][extra] if extra else project["dependencies"]
    for requirement in map(Requirement, wanted):
        if requirement.name == project["name"]:
            continue
        locked = LOCKED.get(plain(requirement.name))
        assert locked is not None, f"{requirement} is not in the lock"
        assert requirement.specifier.contains(locked), f"{requirement}, but the lock has {locked}"


def test_both_docker_images_have_the_same_base() -> None:
    """One Python, one Java, one user id: Spark refuses a worker whose Python is not its driver's."""
    kept = [
        [
            line
            for line in (ROOT / "docker" / name).read_text().splitlines()
            if line.startswith(("FROM", "ENV JAVA_HOME"))
        ]
        for name in ("Dockerfile.airflow", "Dockerfile.spark")
    ]
    assert kept[0] == kept[1]
    assert all(
        "--uid 50000" in (ROOT / "docker" / name).read_text() for name in ("Dockerfile.airflow", "Dockerfile.spark")
    )


def test_compose_publishes_on_the_loopback_address_only() -> None:
    compose = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())
    ports = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    named = {volume.split(":")[0] for service in compose["services"].values() for volume in service.get("volumes", ())}
    assert {name for name in named if not name.startswith(".")} == set(compose["volumes"])
