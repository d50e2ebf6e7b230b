"""An open store, and those who ask it."""

from collections.abc import Iterator
from typing import Final

import pytest

from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.processes import Holder

ANNA: Final = Holder("dag/anna", "1", "host-a")
BEN: Final = Holder("dag/ben", "1", "host-b")


class OpenStore:
    """A part of the contract. `meta_url` is that of a database with the tables and without a row."""

    @pytest.fixture
    def store(self, meta_url: str) -> Iterator[MetaStore]:
        with MetaStore.open(meta_url) as store:
            yield store
