"""A PostgreSQL of this session's own, beside the servers of `tests/conftest.py`."""

from collections.abc import Iterator

import pytest

from tests.conftest import REQUIRED, ServerPool
from tests.integration.meta.postgres import programs, running_postgres

MISSING = "PostgreSQL cannot be had: apt-get install postgresql"


@pytest.fixture(scope="session")
def postgres(server_pool: ServerPool) -> Iterator[str]:
    bin_folder = programs()
    if bin_folder is None:
        if REQUIRED:
            raise RuntimeError(MISSING)
        server_pool.left_out[MISSING] += 1
        pytest.skip(MISSING)
    with running_postgres(bin_folder) as url:
        yield url
