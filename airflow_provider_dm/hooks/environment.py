"""What the processes that a task starts inherit of its own environment."""

from __future__ import annotations

import os
from typing import Final

_AIRFLOWS_OWN: Final = ("AIRFLOW_CONN_", "AIRFLOW_VAR_", "AIRFLOW__")


def environment_of_apps() -> dict[str, str]:
    """Return what an app inherits: all but Airflow's own settings and connections, which hold other secrets."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_AIRFLOWS_OWN)}
