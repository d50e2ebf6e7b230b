"""The statements of online DDL tools in a log, for one change of a table without other writers."""

from collections.abc import Sequence


def gh_ost(name: str, change: str, columns: str) -> list[str]:
    """Return gh-ost's. `columns`: those that it copies, with commas in between."""
    beside = [
        f"CREATE TABLE `_{name}_ghc` (id bigint AUTO_INCREMENT PRIMARY KEY, hint varchar(64))",
        f"INSERT INTO `_{name}_ghc` (hint) VALUES ('copying')",
    ]
    after = [f"DROP TABLE `_{name}_del`", f"DROP TABLE `_{name}_ghc`"]
    return [*_by_way_of(f"_{name}_gho", f"_{name}_del", name, change, columns, beside), *after]


def pt_osc(name: str, change: str, columns: str) -> list[str]:
    """Return those of pt-online-schema-change."""
    after = [f"DROP TABLE IF EXISTS `_{name}_old`"]
    return [*_by_way_of(f"_{name}_new", f"_{name}_old", name, change, columns, ()), *after]


def _by_way_of(ghost: str, trash: str, name: str, change: str, columns: str, beside: Sequence[str]) -> list[str]:
    return [
        f"CREATE TABLE `{ghost}` LIKE `{name}`",
        f"ALTER TABLE `{ghost}` {change}",
        *beside,
        f"INSERT INTO `{ghost}` ({columns}) SELECT {columns} FROM `{name}`",
        f"RENAME TABLE `{name}` TO `{trash}`, `{ghost}` TO `{name}`",
    ]
