"""`python -m airflow_provider_dm.engine.relay SPEC.json`: run one relay in this process (see `child`)."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """Import the relay and run it.

    Garbage collection during the imports would take a fifth of their time and find nothing, then or later.
    """
    gc.disable()
    from airflow_provider_dm.engine.relay import child

    gc.freeze()
    gc.enable()
    return child.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
