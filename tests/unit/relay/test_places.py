"""The start in a log for a given GTID set or a given time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from airflow_provider_dm.engine.mysql.binlog_status import BinlogSize
from airflow_provider_dm.engine.mysql.endpoint import Flavour
from airflow_provider_dm.engine.mysql.gtid import GtidSet
from airflow_provider_dm.engine.relay.errors import PlaceNotFound
from airflow_provider_dm.engine.relay.places import FileHead, Log, TransactionBegin, place_after, place_at_time

U, V = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4f22fa47-71ca-11e1-9e33-c80aa9429562"


@dataclass(frozen=True)
class Written:
    """A file: when it was begun, and its transactions (id, time). Each takes 100 bytes after a head of 100."""

    begun: int
    transactions: tuple[tuple[str, int], ...]


def log_of(files: Mapping[str, Written], flavour: Flavour, before: str = "") -> Log:
    sizes = [BinlogSize(name, 100 + 100 * len(one.transactions)) for name, one in files.items()]
    heads, committed = {}, GtidSet.parse(before, flavour)
    for name, one in files.items():
        heads[name] = FileHead(one.begun, committed)
        for gtid, _ in one.transactions:
            committed = committed.union(GtidSet.parse(gtid, flavour))

    def begins(file: BinlogSize) -> Iterator[TransactionBegin]:
        for number, (gtid, moment) in enumerate(files[file.name].transactions):
            yield TransactionBegin(100 + 100 * number, moment, GtidSet.parse(gtid, flavour) or None)

    return Log(sizes, lambda file: heads[file.name], begins)


def mysql(*files: tuple[int, list[tuple[str, int]]], before: str = "") -> Log:
    named = {f"bin.{number:06d}": Written(begun, tuple(of)) for number, (begun, of) in enumerate(files, 3)}
    return log_of(named, Flavour.MYSQL, before)


MYSQL = mysql(
    (10, [(f"{U}:4", 11), (f"{U}:6", 14), (f"{U}:5", 12)]),  # committed out of their numbers' order
    (20, [(f"{V}:1", 21), (f"{U}:7", 22)]),
    (30, []),
    before=f"{U}:1-3",
)
MARIADB = log_of(
    {
        "bin.000003": Written(10, (("0-1-4", 11), ("1-1-9", 12), ("0-2-6", 13))),
        "bin.000004": Written(20, (("0-2-7", 21),)),
    },
    Flavour.MARIADB,
    "0-1-3",
)


@pytest.mark.parametrize(
    ("log", "wanted", "place"),
    [
        (MYSQL, f"{U}:1-3", "bin.000003:100"),
        (MYSQL, f"{U}:1-4", "bin.000003:200"),
        (MYSQL, f"{U}:1-4:6", "bin.000003:300"),
        (MYSQL, f"{U}:1-6", "bin.000004:100"),
        (MYSQL, f"{U}:1-6,{V}:1", "bin.000004:200"),
        (MYSQL, f"{U}:1-7,{V}:1", "bin.000005:100"),
        (MARIADB, "0-1-3", "bin.000003:100"),
        (MARIADB, "0-1-4,1-1-9", "bin.000003:300"),
        (MARIADB, "0-2-6,1-1-9", "bin.000004:100"),
        (MARIADB, "1-1-9,0-2-7", "bin.000004:200"),
    ],
)
def test_a_gtid_set_is_located_after_all_its_transactions(log: Log, wanted: str, place: str) -> None:
    flavour = Flavour.MYSQL if log is MYSQL else Flavour.MARIADB
    assert str(place_after(log, GtidSet.parse(wanted, flavour))) == place


@pytest.mark.parametrize(
    ("log", "wanted", "why"),
    [
        (MYSQL, f"{U}:1-5", f"{U}:6 at bin.000003:200 is not in it"),
        (MYSQL, f"{U}:1-2", "the set lacks transactions committed before bin.000003, the oldest existing file"),
        (MYSQL, f"{U}:1-9,{V}:1", "the log ends at bin.000005:100 without 2 of its transactions"),
        (mysql((10, [(f"{U}:1", 11)])), f"{U}:5", f"{U}:1 at bin.000003:100 is not in it"),
        (mysql((10, [("", 11)])), f"{U}:1", "has no GTID"),
        (mysql(), f"{U}:1", "no file"),
        (MARIADB, "0-1-5,1-1-9", "0-2-6 at bin.000003:300 is not in it"),
        (MARIADB, "0-1-4,1-1-8", "1-1-9 at bin.000003:200 is not in it"),
        (MARIADB, "0-2-7,1-1-9,2-1-1", "the log ends at bin.000004:200 without 2-1-1"),
    ],
)
def test_a_gtid_set_without_a_location_is_refused_with_the_reason(log: Log, wanted: str, why: str) -> None:
    flavour = Flavour.MYSQL if ":" in wanted else Flavour.MARIADB
    with pytest.raises(PlaceNotFound, match=why.replace("(", r"\(")):
        place_after(log, GtidSet.parse(wanted, flavour))


@pytest.mark.parametrize(
    ("moment", "place"),
    [
        (11, "bin.000003:100"),
        (12, "bin.000003:200"),
        (15, "bin.000004:100"),
        (21, "bin.000004:100"),
        (22, "bin.000004:200"),
    ],
)
def test_a_time_is_located_before_the_first_transaction_that_is_not_older(moment: int, place: str) -> None:
    assert str(place_at_time(MYSQL, moment, "then")) == place


@pytest.mark.parametrize(
    ("moment", "why"), [(10, "the oldest existing file is bin.000003"), (23, "up to bin.000005:100")]
)
def test_a_time_that_the_log_does_not_reach_is_refused(moment: int, why: str) -> None:
    with pytest.raises(PlaceNotFound, match=why):
        place_at_time(MYSQL, moment, "then")


def test_a_time_before_the_first_file_is_its_start() -> None:
    log = log_of({"bin.000001": Written(10, ((f"{U}:1", 11),))}, Flavour.MYSQL)
    assert str(place_at_time(log, 5, "then")) == "bin.000001:4"
