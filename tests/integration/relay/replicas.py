"""A server and its replica by GTID, and what a failover does to them."""

from dataclasses import replace

from testbed import Flavour, Server, ServerSpec
from tests.waiting import wait_for


def replicated(source: str, replica: str, flavour: Flavour, options: tuple[str, ...]) -> tuple[ServerSpec, ServerSpec]:
    """Describe a server and its replica, never hostile ones: servers' own replication fails under such settings."""
    one = ServerSpec(source, flavour, options, hostile=False)
    return one, replace(one, name=replica)


def replicate(source: Server, replica: Server) -> None:
    """Let the replica follow from the beginning of the source's log on, by GTID."""
    if source.flavour == "mysql":
        replica.sql(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='{source.host}', SOURCE_PORT={source.port}, SOURCE_USER='root', "
            "SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1; START REPLICA"
        )
    else:
        replica.sql(
            f"CHANGE MASTER TO MASTER_HOST='{source.host}', MASTER_PORT={source.port}, MASTER_USER='root', "
            "MASTER_USE_GTID=slave_pos; START SLAVE"
        )


def has_all_of(source: Server, replica: Server) -> str:
    """Wait until the replica has applied everything that the source has; return what that is."""
    variable = "@@gtid_executed" if source.flavour == "mysql" else "@@gtid_binlog_pos"
    ((wanted,),) = source.sql(f"SELECT {variable}")

    def applied() -> object:
        return replica.sql(f"SELECT {variable}")[0][0]

    wait_for(lambda: applied() == wanted, shows=lambda: (wanted, applied(), replica.tail()))
    return str(wanted)


def promote(replica: Server) -> None:
    """It no longer follows another server."""
    replica.sql("STOP REPLICA" if replica.flavour == "mysql" else "STOP SLAVE")
