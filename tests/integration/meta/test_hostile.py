"""The store's contract on a server with unusual global settings."""

import pytest

from testbed import Server
from tests.conftest import FreshSchema
from tests.integration.meta.test_store_on_servers import ServerContract, url_of

pytestmark = pytest.mark.hostile


class TestOnHostileServers(ServerContract):
    @pytest.fixture
    def meta_url(self, target: Server, fresh_schema: FreshSchema) -> str:
        return url_of(target, target.flavour, fresh_schema(target))
