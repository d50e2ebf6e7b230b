"""The header scan with its kernel plans exactly what it plans without."""

import random
import struct
from pathlib import Path

import pytest

from airflow_provider_dm.engine.binlog.kernels.build import SWITCH
from airflow_provider_dm.engine.binlog.log_file import LogFile
from airflow_provider_dm.engine.binlog.planned import DdlStatement, Epoch, EpochLimits, Planned
from airflow_provider_dm.engine.binlog.planner import plan_epoch
from airflow_provider_dm.engine.errors import DmError
from airflow_provider_dm.engine.mysql.location import Location
from tests.unit.binlog.building import UUID_OF_SOURCE, Log, order


def random_log(dice: random.Random, flavour: str) -> Log:
    """Mostly ordinary transactions, with all other events between them that a scan handles."""
    log = Log(flavour, checksum=dice.random() < 0.7)
    for _ in range(dice.randint(1, 60)):
        match dice.randrange(14):
            case 0:
                log.ddl("ALTER TABLE t ADD x INT")
            case 1:
                log.begin()
                log.change(None, order(1))
                log.query("COMMIT")
            case 2:
                log.sequence += dice.randint(0, 5)
            case 3 if flavour == "mysql":
                log.add(34, struct.pack("<B16sQ", 1, UUID_OF_SOURCE.bytes, 0) + bytes(17))
                if dice.random() < 0.2:
                    log.data[-10] ^= 1  # the decoder of the rows checks it, not the scan
                log.query("BEGIN")
                log.change(order(2), None)
                log.xid()
            case 4:
                log.add(dice.choice([27, 161]), b"idle")
            case 5:
                log.begin()
                log.add(160 if flavour == "mariadb" else 29, b"\x05hello")
                for _ in range(dice.randint(1, 5)):
                    log.table_map()
                    log.rows("insert", [order(n) for n in range(dice.randint(1, 30))])
                log.xid(timestamp=dice.randint(1, 2_000_000_000))
            case 6 if dice.random() < 0.2:
                log.add(dice.choice([26, 38, 200, 16, 19]), bytes(30))
            case _:
                log.transaction(timestamp=dice.randint(1, 2_000_000_000))
    if dice.random() < 0.3:
        del log.data[-dice.randint(1, 120) :]
    return log


def plans(file: LogFile, max_bytes: int, range_bytes: int, goal: Location | None) -> list[Planned | str]:
    """Everything that is planned from the beginning on, the error that ends it included."""
    lo, found = Location(file.name, 4), list[Planned | str]()
    while True:
        try:
            planned = plan_epoch([file], lo, EpochLimits(goal=goal, max_bytes=max_bytes, range_bytes=range_bytes))
        except DmError as error:
            return [*found, str(error)]
        found.append(planned)
        match planned:
            case Epoch():
                lo = planned.hi
            case DdlStatement():
                lo = planned.end
            case _:
                return found


@pytest.mark.parametrize("flavour", ["mysql", "mariadb"])
def test_kernel_and_reference_scan_equally(flavour: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(150):
        dice = random.Random(seed)
        log = random_log(dice, flavour)
        if len(log.data) < 4:
            continue
        file = log.file(tmp_path, last=dice.random() < 0.5)
        sizes = dice.choice([1, 200, 1000, 1 << 30]), dice.choice([1, 300, 5000, 1 << 30])
        goal = Location(file.name, dice.randint(4, file.size)) if dice.random() < 0.3 else None
        with_kernel = plans(file, *sizes, goal)
        with monkeypatch.context() as patch:
            patch.setenv(SWITCH, "off")
            assert plans(file, *sizes, goal) == with_kernel, seed


def test_consecutive_ids_are_one_range_and_a_gap_is_kept(tmp_path: Path) -> None:
    log = Log("mysql")
    for sequence in (1, 2, 3, 7, 8, 2000):
        log.gtid(sequence=sequence)
        log.query("BEGIN")
        log.xid()
    file = log.file(tmp_path)
    (planned, _) = plans(file, 1 << 30, 1 << 30, None)
    assert isinstance(planned, Epoch)
    assert planned.hi.gtid_set == f"{UUID_OF_SOURCE}:1-3:7-8:2000"
    assert planned.transactions == 6
