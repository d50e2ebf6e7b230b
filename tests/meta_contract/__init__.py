"""The contract of a metadata DB on any server: collected once for each, as `SchemaContract` is."""

from tests.meta_contract.ddl_locks import DdlLockContract
from tests.meta_contract.leases import LeaseContract
from tests.meta_contract.operators import OperatorContract
from tests.meta_contract.processes import ProcessContract
from tests.meta_contract.relays import RelayContract
from tests.meta_contract.runs import RunContract
from tests.meta_contract.subtasks import SubtaskContract


class StoreContract(
    LeaseContract, RunContract, SubtaskContract, OperatorContract, DdlLockContract, RelayContract, ProcessContract
):
    """All but the tables themselves."""
