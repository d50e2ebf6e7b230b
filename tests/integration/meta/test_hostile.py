"""The store's contract on a server with unusual global settings."""

from collections.abc import Iterator

import pytest

from airflow_provider_dm.engine.meta.migrate import migrate
from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.meta.test_store_on_servers import ServerContract, url_of
from tests.meta_contract.schema import SchemaContract

pytestmark = pytest.mark.hostile


class TestSchemaOnHostileServers(SchemaContract):
    @pytest.fixture
    def empty_url(self, target: Server, fresh_schema: FreshSchema) -> str:
        return url_of(target, target.flavour, fresh_schema(target))


@pytest.fixture(scope="module")
def shared_url(target: Server) -> Iterator[str]:
    target.sql("CREATE DATABASE meta_contract")
    migrate(url := url_of(target, target.flavour, "meta_contract"))
    yield url
    target.sql("DROP DATABASE meta_contract")


class TestOnHostileServers(ServerContract):
    pass
