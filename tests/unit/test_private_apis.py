"""The private interfaces of PyMySQL and pyspark that the engine and the apps use, as they use them.

pyproject.toml bounds both packages to the releases in which these exist. Before a bound is raised, this has to pass.
"""

import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from pymysql.connections import Connection
from pymysql.cursors import Cursor
from pymysql.protocol import MysqlPacket

ROOT = Path(__file__).parents[2]
METHODS = {  # mysql/guarded.py overrides or calls them, and reading/text_rows.py
    "_create_ssl_ctx": ["self", "sslp"],
    "_execute_command": ["self", "command", "sql"],
    "_force_close": ["self"],
    "_read_packet": ["self", "packet_type"],
    "_read_query_result": ["self", "unbuffered"],
    "set_character_set": ["self", "charset", "collation"],
    "write_packet": ["self", "payload"],
}
ATTRIBUTES = ("_current_timeout", "_read_timeout", "_rfile", "_secure", "_sock", "_auth_plugin_map")


@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_pymysqls_connection(name: str) -> None:
    assert list(inspect.signature(getattr(Connection, name)).parameters) == METHODS[name]


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_attribute_of_pymysqls_connection(name: str) -> None:
    assert f"self.{name}" in inspect.getsource(Connection)


def test_private_names_of_pymysql_for_reading_packets_exist() -> None:
    assert list(inspect.signature(MysqlPacket.read_length_encoded_integer).parameters) == ["self"]
    assert isinstance(Cursor.max_stmt_length, int)
    assert hasattr(inspect.getmodule(Connection), "MysqlPacket")


def test_private_names_of_pyspark_for_starting_it_exist() -> None:
    """spark_apps/runner.py, workers.py and relay_source.py."""
    from pyspark import SparkContext, daemon
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql.pandas.types import from_arrow_schema

    assert {one.default for one in inspect.signature(SparkContext._ensure_initialized).parameters.values()} == {None}
    assert not inspect.signature(daemon.manager).parameters
    assert "arrow_schema" in inspect.signature(from_arrow_schema).parameters
    assert "PYSPARK_GATEWAY_PORT" in inspect.getsource(launch_gateway)


@pytest.mark.parametrize("package", ["PyMySQL", "pyspark"])
def test_no_untested_release_is_used(package: str) -> None:
    """The bound is the next minor release, where private names change, here and for docker/local."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"], *project["optional-dependencies"]["spark"]]
    lines = (ROOT / "docker/requirements.in").read_text().splitlines()
    known = [Requirement(one) for one in [*listed, *(one for one in lines if one and not one.startswith("#"))]]
    found = [one.specifier for one in known if one.name == package]
    major, minor = version(package).split(".")[:2]
    assert len(found) == 2
    assert found[0] == found[1]
    assert found[0].contains(version(package))
    assert not found[0].contains(f"{major}.{int(minor) + 1}.0")
