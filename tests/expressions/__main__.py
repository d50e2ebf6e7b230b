"""`python -m tests.expressions [--decisions N] [--seed N]`: rounds on both flavours, each with a seed of its own.

Ends with 1 where the servers decide otherwise, after the round in which that was found."""

import argparse
import secrets
import sys
from random import Random

from testbed import ServerSpec, running_servers
from tests.expressions import Campaign

ROWS, EXPRESSIONS, SHOWN = 200, 250, 20
ZONE = "Europe/London"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.expressions", description=__doc__)
    parser.add_argument("--decisions", type=int, default=1_000_000, help="how many to make at least")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32), help="of the first round")
    options = parser.parse_args(arguments)
    with running_servers(
        [ServerSpec("mysql", "mysql", zone=ZONE), ServerSpec("mariadb", "mariadb", zone=ZONE)]
    ) as servers:
        for server in servers:
            server.sql("CREATE DATABASE expressions")
        made, seed = 0, options.seed
        while made < options.decisions:
            for server in servers:
                dice = Random(seed)
                campaign = Campaign.on(server, "expressions", dice, ROWS)
                found = campaign.disagreements(campaign.expressions(dice, EXPRESSIONS))
                for one in found[:SHOWN]:
                    print(server.flavour, one)
                if found:
                    print(f"seed {seed}: {len(found)} disagreements with {server.flavour}")
                    return 1
                made += ROWS * EXPRESSIONS
            print(f"seed {seed}: {made:,} decisions", flush=True)
            seed += 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
