"""The meaning of SHOW GRANTS of both families."""

import pytest

from airflow_provider_dm.engine.precheck.grants import Grants


@pytest.mark.parametrize(
    ("lines", "privilege", "where", "allowed"),
    [
        (["GRANT ALL PRIVILEGES ON *.* TO `root`@`%` WITH GRANT OPTION"], "SELECT", ("a", "b"), True),
        (["GRANT USAGE ON *.* TO `u`@`%`"], "SELECT", ("a", "b"), False),
        (["GRANT SELECT, RELOAD ON *.* TO 'u'@'%'"], "RELOAD", (None, None), True),
        (["GRANT SELECT ON `a`.* TO `u`@`%`"], "SELECT", ("a", "b"), True),
        (["GRANT SELECT ON `a`.* TO `u`@`%`"], "SELECT", ("other", "b"), False),
        (["GRANT SELECT ON `a`.* TO `u`@`%`"], "SELECT", (None, None), False),
        (["GRANT SELECT ON `shop\\_%`.* TO `u`@`%`"], "SELECT", ("shop_01", "b"), True),
        (["GRANT SELECT ON `shop\\_%`.* TO `u`@`%`"], "SELECT", ("shops01", "b"), False),
        (["GRANT SELECT ON `sh_p`.* TO `u`@`%`"], "SELECT", ("shop", "b"), True),
        (["GRANT SELECT ON `a`.`b` TO `u`@`%`"], "SELECT", ("a", "b"), True),
        (["GRANT SELECT ON `a`.`b` TO `u`@`%`"], "SELECT", ("a", None), False),
        (["GRANT SELECT (`id`, `v`), INSERT ON `a`.`b` TO `u`@`%`"], "SELECT", ("a", "b"), False),
        (["GRANT SELECT (`id`, `v`), INSERT ON `a`.`b` TO `u`@`%`"], "INSERT", ("a", "b"), True),
        (["GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `u`@`%`"], "REPLICATION CLIENT", (None, None), True),
        (["GRANT `reader`@`%` TO `u`@`%`", "GRANT SELECT ON *.* TO `u`@`%`"], "SELECT", ("a", "b"), True),
        (["GRANT SELECT ON *.* TO `u`@`%`", "REVOKE SELECT ON `a`.* FROM `u`@`%`"], "SELECT", ("a", "b"), False),
        (["GRANT SELECT ON *.* TO `u`@`%`", "REVOKE SELECT ON `a`.* FROM `u`@`%`"], "SELECT", ("c", "b"), True),
        (["GRANT USAGE ON *.* TO `u`@`%` IDENTIFIED BY PASSWORD '*AB'"], "SELECT", ("a", "b"), False),
        (["GRANT SELECT ON `we``ird`.* TO `u`@`%`"], "SELECT", ("we`ird", "b"), True),
    ],
)
def test_grants_answer(lines: list[str], privilege: str, where: tuple[str | None, str | None], allowed: bool) -> None:
    assert Grants.parse(lines).allow(privilege, *where) is allowed
