"""`python -m airflow_provider_dm.engine.relay SPEC.json`: run one relay in this process (see `child`)."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """Import the relay and run it.

    Garbage collection is off during the imports, of which it would take a fifth of the time, and later skips the
    imported objects: they are never garbage.
    """
    gc.disable()
    from airflow_provider_dm.engine.relay import child

    gc.freeze()
    gc.enable()
    return child.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
