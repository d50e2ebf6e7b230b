"""The section `[dm]` of Airflow's configuration, read when it is needed and never at import.

The defaults are read from `get_provider_info`, so that a checkout whose provider Airflow has not discovered behaves the
same.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_provider_dm.get_provider_info import get_provider_info

if TYPE_CHECKING:
    from airflow_provider_dm.engine.config.source import SourceConfig

SECTION: Final = "dm"


def option(name: str) -> str:
    """Return the value of `[dm] name`. Raises KeyError for an option that does not exist."""
    from airflow.sdk import conf

    default = get_provider_info()["config"][SECTION]["options"][name]["default"]
    value: str = conf.get(SECTION, name, fallback=default)
    return value


def poll_seconds() -> float:
    """Return the seconds between two polls of a relay or a run."""
    return float(option("poll_interval"))


def configured_work_root() -> Path:
    """Return the root of this machine's work directories (`launch.workdir`), absolute; not created."""
    return _below_home(option("work_dir"))


def _below_home(configured: str) -> Path:
    """Return a path, absolute: a relative one is below AIRFLOW_HOME."""
    # The rule of airflow.configuration.AIRFLOW_HOME, repeated to avoid its imports.
    home = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser().absolute()
    return home / Path(configured).expanduser()


def relay_root() -> Path | None:
    """Return `[dm] relay_dir`, absolute; None if the option is not set."""
    configured = option("relay_dir")
    return _below_home(configured) if configured else None


def relay_dir_of(source_id: str) -> str:
    """Return the source's folder below `[dm] relay_dir`; "" if the option is not set.

    It overrides the `relay-dir` of sources, as the option of a DM-worker does.
    """
    from airflow_provider_dm.launch.workdir import path_name

    root = relay_root()
    return "" if root is None else str(root / path_name(source_id))


def with_relay_dir(source: SourceConfig) -> SourceConfig:
    """Return the source with `relay-dir` replaced by `[dm] relay_dir`, if that option is set."""
    overriding = relay_dir_of(source.source_id)
    return source.model_copy(update={"relay_dir": overriding}) if overriding else source
