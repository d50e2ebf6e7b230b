"""`python -m airflow_provider_dm.engine.relay SPEC.json`: one relay in this process, as `child` describes it."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """Import the relay and run it.

    What an import makes is no garbage, and to look for some takes a fifth of its time; nor will it be any later.
    """
    gc.disable()
    from airflow_provider_dm.engine.relay import child

    gc.freeze()
    gc.enable()
    return child.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
