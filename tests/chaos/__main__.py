"""`docker/local chaos relay --kills 200`: what the tests do a few times, for as long as one likes.

`docker/local chaos giant`: a transaction of more than 4 GiB, which needs 20 GB of disk."""

import argparse
import itertools
import sys
import time
from collections import Counter

from testbed import Flavour, ServerSpec, running_servers
from tests.chaos.giant import KILL_AT, pull_a_giant
from tests.chaos.relay import DEEDS, torment

FLAVOURS: tuple[Flavour, ...] = ("mariadb", "mysql")


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    modes = [False, True] if options.mode == "both" else [options.mode == "gtid"]
    flavours = FLAVOURS if options.flavour == "both" else (options.flavour,)
    combinations = list(itertools.product(flavours, modes))
    if options.what == "giant":
        return _giants(combinations)
    total: Counter[str] = Counter()
    for index, (flavour, gtid) in enumerate(combinations):
        share = options.kills // len(combinations) + (index < options.kills % len(combinations))
        deeds = list(itertools.islice(itertools.cycle(DEEDS), share))
        begun = time.monotonic()
        with running_servers([ServerSpec("source", flavour)]) as (server,):
            server.sql("CREATE DATABASE chaos")
            done = torment(server, schema="chaos", gtid=gtid, deeds=deeds, seed=options.seed)
        total += done
        mode = "GTID" if gtid else "position"
        print(f"{flavour}, {mode} mode: {_said(done)}; every byte equal ({time.monotonic() - begun:.0f} s)", flush=True)
    print(f"all: {_said(total)}")
    return 0


def _giants(combinations: list[tuple[Flavour, bool]]) -> int:
    for flavour, gtid in combinations:
        begun = time.monotonic()
        with running_servers([ServerSpec("source", flavour, ("--max-binlog-size=1G",))]) as (server,):
            server.sql("CREATE DATABASE chaos")
            pull_a_giant(server, gtid=gtid)
        mode = "GTID" if gtid else "position"
        print(f"{flavour}, {mode} mode: killed at {', '.join(f'{size >> 20:,} MiB' for size in KILL_AT)}; every byte "
              f"equal, every row found ({time.monotonic() - begun:.0f} s)", flush=True)  # fmt: skip
    return 0


def _said(done: Counter[str]) -> str:
    named = {"kill": "kill -9", "cut": "cuts in a packet", "drop": "dump threads killed", "freeze": "silent networks"}
    return f"{done.total()} deeds (" + ", ".join(f"{count} {named[deed]}" for deed, count in done.items()) + ")"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="docker/local chaos", description=__doc__)
    parser.add_argument("what", choices=["relay", "giant"])
    parser.add_argument("--kills", type=int, default=200, help="kills and cuts, over all combinations (default 200)")
    parser.add_argument("--flavour", choices=["both", *FLAVOURS], default="both")
    parser.add_argument("--mode", choices=["both", "position", "gtid"], default="both")
    parser.add_argument("--seed", type=int, default=1, help="another one is another story (default 1)")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
