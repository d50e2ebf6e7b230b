"""The contract of a metadata DB on any server: collected once for each by a subclass that gives `meta_url`."""

from tests.meta_contract.ddl_locks import DdlLockContract
from tests.meta_contract.leases import LeaseContract
from tests.meta_contract.operators import OperatorContract
from tests.meta_contract.processes import ProcessContract
from tests.meta_contract.relays import RelayContract
from tests.meta_contract.runs import RunContract
from tests.meta_contract.schema import SchemaContract
from tests.meta_contract.subtasks import SubtaskContract


class StoreContract(
    SchemaContract,
    LeaseContract,
    RunContract,
    SubtaskContract,
    OperatorContract,
    DdlLockContract,
    RelayContract,
    ProcessContract,
):
    """Subclass it with a fixture `meta_url`: the address of an empty database of the test's own."""
