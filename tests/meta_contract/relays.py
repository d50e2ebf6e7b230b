"""Relays: their reports, and requests to them."""

from airflow_provider_dm.engine.meta.records import RelayStatus, Stage
from airflow_provider_dm.engine.meta.store import MetaStore
from airflow_provider_dm.engine.mysql.location import Location
from tests.meta_contract.opened import OpenStore


class RelayContract(OpenStore):
    """What holds of a relay's row."""

    def test_reports_of_a_relay_and_requests_are_separate(self, store: MetaStore) -> None:
        assert store.relay_status("s") is None
        assert store.relay_desired("s") is None
        store.set_relay_desired("s", Stage.RUNNING)
        assert store.relay_status("s") is None
        reported = RelayStatus(
            "s",
            Stage.RUNNING,
            master=Location("mysql-bin.000002", 900),
            relay=Location("mysql-bin.000002", 400, "x:1-3"),
            sub_dir="9f2c.000001",
            pid=4711,
            host="host-a",
            process="boot pid:[1] 4711 99",
            directory="/var/lib/relay/s",
            task="shop",
            error={"ErrCode": "DM-4001"},
        )
        store.put_relay_status(reported)
        store.set_relay_desired("s", Stage.PAUSED)
        found = store.relay_status("s")
        assert found is not None
        assert found.heartbeat_age_seconds is not None
        assert found.heartbeat_age_seconds < 5
        assert found.heartbeat_at is not None
        same = (
            "source",
            "stage",
            "master",
            "relay",
            "sub_dir",
            "caught_up",
            "error",
            "pid",
            "host",
            "process",
            "directory",
            "task",
        )
        assert [getattr(found, name) for name in same] == [getattr(reported, name) for name in same]
        assert store.relay_desired("s") is Stage.PAUSED

    def test_all_relays_that_have_reported_are_listed(self, store: MetaStore) -> None:
        store.put_relay_status(RelayStatus("t", Stage.PAUSED))
        store.put_relay_status(RelayStatus("s", Stage.RUNNING))
        store.set_relay_desired("u", Stage.RUNNING)
        assert [(one.source, one.stage) for one in store.list_relays()] == [("s", Stage.RUNNING), ("t", Stage.PAUSED)]

    def test_a_starting_relay_keeps_the_reported_sub_directory(self, store: MetaStore) -> None:
        """A relay that starts does not know yet which sub-directory it writes."""
        store.put_relay_status(RelayStatus("s", Stage.RUNNING, sub_dir="9f2c.000001"))
        store.put_relay_status(RelayStatus("s", Stage.NEW, host="host-b"))
        found = store.relay_status("s")
        assert found is not None
        assert (found.stage, found.host, found.sub_dir) == (Stage.NEW, "host-b", "9f2c.000001")
        store.put_relay_status(RelayStatus("s", Stage.RUNNING, sub_dir="77aa.000002"))
        assert (found := store.relay_status("s")) is not None
        assert found.sub_dir == "77aa.000002"

    def test_a_purge_is_ordered_reported_and_replaced(self, store: MetaStore) -> None:
        assert store.ordered_purge("s") is None
        store.put_relay_status(RelayStatus("s", Stage.PAUSED))
        store.order_purge("s", "1", {"preview": True})
        store.order_purge("s", "2", {"preview": False})
        store.put_relay_status(RelayStatus("s", Stage.RUNNING))
        assert store.ordered_purge("s") == ("2", {"preview": False})
        store.report_purge("s", "1", {"files": ["late"]})
        assert store.purge_report("s", "1") is None
        store.report_purge("s", "2", {"files": []})
        assert (store.ordered_purge("s"), store.purge_report("s", "2")) == (None, {"files": []})
        store.order_purge("s", "3", {})
        store.withdraw_purge("s", "2")
        assert store.ordered_purge("s") == ("3", {})
        store.withdraw_purge("s", "3")
        assert store.ordered_purge("s") is None
