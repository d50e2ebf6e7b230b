"""`python -m tests.exactness [--target FLAVOUR] [--cells N] [--seed N] [--rows N] [--only SAMPLE]`: rounds over all
pairs of MySQL and MariaDB, or from both into one target.

Each round has a seed of its own, which is printed; `--seed` makes a round again. Ends with 1 where a cell did not
arrive as it was, after the round in which that was found."""

import argparse
import secrets
import sys
import time
from itertools import product
from random import Random
from typing import Final

from testbed import Flavour, Server, ServerSpec, running_servers
from tests.exactness.journey import Journey, Outcome
from tests.exactness.samples import SAMPLES

SOURCES: Final[tuple[Flavour, ...]] = ("mysql", "mariadb")
TARGETS: Final[tuple[Flavour, ...]] = (*SOURCES, "tidb")
SCHEMA: Final = "exactness"
SHOWN: Final = 20


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    targets = [options.target] if options.target else SOURCES
    specs = [ServerSpec(f"{flavour}_source", flavour) for flavour in SOURCES]
    specs += [ServerSpec(f"{flavour}_target", flavour) for flavour in targets]
    with running_servers(specs) as servers:
        for server in servers:
            server.sql(f"CREATE DATABASE {SCHEMA}")
        return _rounds(list(product(servers[: len(SOURCES)], servers[len(SOURCES) :])), options)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.exactness", description=__doc__)
    parser.add_argument("--target", choices=TARGETS, help="the only one (default: MySQL and MariaDB in turn)")
    parser.add_argument("--cells", type=int, default=50_000, help="how many to compare at least")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32), help="of the first round")
    parser.add_argument("--rows", type=int, default=600, help="of each table in a round")
    parser.add_argument("--only", default="", help="samples whose names begin so")
    return parser.parse_args(arguments)


def _rounds(pairs: list[tuple[Server, Server]], options: argparse.Namespace) -> int:
    cells, seed, began = 0, options.seed, time.monotonic()
    differences: list[str] = []
    while cells < options.cells and not differences:
        for outcome in round_of(pairs, Random(seed), options.rows, options.only):
            cells += outcome.cells
            differences += outcome.differences
        print(
            f"seed {seed}: {cells:,} cells, {len(differences)} differences, {time.monotonic() - began:.0f} s",
            flush=True,
        )
        seed += 1
    for difference in differences[:SHOWN]:
        print(difference)
    return 1 if differences else 0


def round_of(pairs: list[tuple[Server, Server]], dice: Random, rows: int, only: str = "") -> list[Outcome]:
    """Every sample once from each source to each target that it fits."""
    return [
        Journey(source, target, SCHEMA).of(sample, dice, max(1, round(rows * sample.weight)))
        for source, target in pairs
        for sample in SAMPLES
        if sample.fits(source.flavour, target.flavour) and sample.name.startswith(only)
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
