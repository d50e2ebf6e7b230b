"""Rules of the engine that more than one model breaks on purpose."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from airflow_provider_dm.engine.sync.write import dependence


def last_first(patch: pytest.MonkeyPatch) -> None:
    """Turn the order of changes that depend on each other round."""
    real = dependence.Order.of

    def turned(marks: dependence.Marks, changes: Sequence[dependence.Kept], *, alone: bool) -> dependence.Order:
        order = real(marks, changes, alone=alone)
        order.levels = [max(order.levels) - level for level in order.levels]
        return order

    patch.setattr(dependence.Order, "of", turned)
