"""The chaos tests, with as many rounds as requested: `docker/local chaos WHAT`."""

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

from testbed import Flavour, Server, ServerSpec, running_servers
from tests.chaos import colliding, ddl, model, moves, shard_ddl
from tests.chaos.failing_over import Pair, pair_of
from tests.chaos.forked import nursery_of_drivers
from tests.chaos.giant import KILL_AT, pull_a_giant
from tests.chaos.relay import FAULTS, torment
from tests.chaos.ways import SAFE
from tests.nursery import Nursery
from tests.unit.shard import test_moves_model as moves_model
from tests.unit.shard.test_agreement_model import Rules, explore

FLAVOURS: tuple[Flavour, ...] = ("mariadb", "mysql")
ZONES: dict[Flavour, str] = {"mariadb": "America/New_York", "mysql": "Europe/London"}
"""The time zones of the sources' machines."""


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    do: Callable[[argparse.Namespace], int] = options.do
    return do(options)


def _relay(options: argparse.Namespace) -> int:
    combinations = _combinations(options)
    total: Counter[str] = Counter()
    for index, (flavour, gtid) in enumerate(combinations):
        share = options.kills // len(combinations) + (index < options.kills % len(combinations))
        faults = list(itertools.islice(itertools.cycle(FAULTS), share))
        begun = time.monotonic()
        with running_servers([ServerSpec("source", flavour)]) as (server,):
            server.sql("CREATE DATABASE chaos")
            done = torment(server, schema="chaos", gtid=gtid, faults=faults, seed=options.seed)
        total += done
        mode = "GTID" if gtid else "position"
        print(f"{flavour}, {mode} mode: {_said(done)}; every byte equal ({time.monotonic() - begun:.0f} s)", flush=True)
    print(f"all: {_said(total)}")
    return 0


def _giants(options: argparse.Namespace) -> int:
    for flavour, gtid in _combinations(options):
        begun = time.monotonic()
        with running_servers([ServerSpec("source", flavour, ("--max-binlog-size=1G",))]) as (server,):
            server.sql("CREATE DATABASE chaos")
            pull_a_giant(server, gtid=gtid)
        mode = "GTID" if gtid else "position"
        print(f"{flavour}, {mode} mode: killed at {', '.join(f'{size >> 20:,} MiB' for size in KILL_AT)}; every byte "
              f"equal, every row found ({time.monotonic() - begun:.0f} s)", flush=True)  # fmt: skip
    return 0


def _moves(options: argparse.Namespace) -> int:
    return _rounds("moves", moves.play_round, options)


def _collisions(options: argparse.Namespace) -> int:
    return _rounds("collisions", colliding.play_round, options)


def _ddl(options: argparse.Namespace) -> int:
    return _rounds(
        "ddl",
        partial(ddl.play_round, plain=options.plain, safe=options.way, lives=options.lives),
        options,
        fail_over=True,
    )


def _shard_ddl(options: argparse.Namespace) -> int:
    with closing(nursery_of_drivers()) as nursery:
        return _rounds("shard_ddl", partial(_of_two_or_three, nursery), options)


def _of_two_or_three(
    nursery: Nursery, target: Server, sources: dict[str, Server], *, schema: str, seed: int
) -> Counter[str]:
    """Every third round has a third source, on a server that is one already."""
    more = {"c": sources["a"]} if seed % 3 == 0 else {}
    return shard_ddl.play_round(target, {**sources, **more}, schema=schema, seed=seed, nursery=nursery)


def _rounds(
    what: str, play_round: Callable[..., Counter[str]], options: argparse.Namespace, *, fail_over: bool = False
) -> int:
    """Play rounds of two sources of different flavours, in both orders, and a target of either, or of the flavour that
    was asked for. `fail_over`: each source has a replica, and rounds are given the pairs."""
    total: Counter[str] = Counter()
    specs = [one for flavour in FLAVOURS for one in pair_of(flavour, ZONES[flavour])[: 2 if fail_over else 1]]
    wanted: Sequence[Flavour] = [options.target] if options.target else FLAVOURS
    of_sources = len(specs)
    specs += [ServerSpec(f"{flavour}_target", flavour) for flavour in wanted]
    with running_servers(specs) as servers:
        sources, targets = servers[:of_sources], servers[of_sources:]
        pairs = [Pair(*sources[:2]), Pair(*sources[2:])] if fail_over else []
        sources = [one.at for one in pairs] or sources
        for number in range(options.rounds):
            begun, seed = time.monotonic(), options.seed * 1000 + number
            target = targets[number % len(targets)]
            order = slice(None, None, 1 if number // 2 % 2 else -1)
            a, b = sources[order]
            given = {"pairs": dict(zip("ab", pairs[order], strict=True))} if pairs else {}
            done = play_round(target, {"a": a, "b": b}, schema=f"{what}_{seed}", seed=seed, **given)
            for server in (a, b, target):
                server.sql(f"DROP DATABASE IF EXISTS {what}_{seed}")
            total += done
            killed = ", ".join(f"{count} {fault}" for fault, count in done.items())
            print(f"round {number + 1}, {a.flavour} and {b.flavour} to {target.flavour}: equal; {killed} "
                  f"({time.monotonic() - begun:.0f} s)", flush=True)  # fmt: skip
    print(f"all: {options.rounds} rounds, equal every time: " + ", ".join(f"{n} {what}" for what, n in total.items()))
    return 0


def _histories(play: Callable[..., int], options: argparse.Namespace) -> int:
    begun = time.monotonic()
    wrong = play(options.histories, seed=options.seed)
    print(f"all: {options.histories} histories, {wrong} wrong ({time.monotonic() - begun:.0f} s)")
    return 1 if wrong else 0


def _shard_model(options: argparse.Namespace) -> int:
    begun = time.monotonic()
    states = explore(Rules(sources=options.sources, ddls=options.ddls))
    print(f"all: {states} states, and none breaks a law ({time.monotonic() - begun:.0f} s)")
    return 0


def _moves_model(options: argparse.Namespace) -> int:
    begun = time.monotonic()
    seeds = range(options.seed, options.seed + options.histories)
    states = sum(moves_model.explore(moves_model.any_history(seed), moves_model.Rules()) for seed in seeds)
    print(f"all: {states} states of {len(seeds)} histories, none breaks a law ({time.monotonic() - begun:.0f} s)")
    return 0


def _combinations(options: argparse.Namespace) -> list[tuple[Flavour, bool]]:
    modes = [False, True] if options.mode == "both" else [options.mode == "gtid"]
    flavours = FLAVOURS if options.flavour == "both" else (options.flavour,)
    return list(itertools.product(flavours, modes))


def _said(done: Counter[str]) -> str:
    named = {"kill": "kill -9", "cut": "cuts in a packet", "drop": "dump threads killed", "freeze": "silent networks"}
    return f"{done.total()} faults (" + ", ".join(f"{count} {named[fault]}" for fault, count in done.items()) + ")"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="docker/local chaos", description=__doc__)
    whats = parser.add_subparsers(metavar="WHAT", required=True)

    def add(name: str, do: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        what = whats.add_parser(name, help=text, description=text)
        what.set_defaults(do=do)
        what.add_argument("--seed", type=int, default=1, help="another one is another story (default 1)")
        return what

    relay = add("relay", _relay, "kill and cut off relays under load, compare every byte")
    relay.add_argument("--kills", type=int, default=200, help="kills and cuts, over all combinations (default 200)")
    giant = add("giant", _giants, "one transaction of more than 4 GiB, with kills in it; needs 20 GB of disk")
    for one in (relay, giant):
        one.add_argument("--flavour", choices=["both", *FLAVOURS], default="both")
        one.add_argument("--mode", choices=["both", "position", "gtid"], default="both")
    moving = add("moves", _moves, "move rows between shards and sources of a merged table while all is killed")
    meeting = add("collisions", _collisions, "shards that write to the same keys in safe mode, and make DDL")
    altering = add("ddl", _ddl, "random DDL at two sources, and rows that move beside it, while all is killed")
    sharding = add(
        "shard-ddl", _shard_ddl, "random DDL of shards at two or three sources, drivers that die at every step"
    )
    for one, usual in ((moving, 30), (meeting, 20), (altering, 50), (sharding, 30)):
        one.add_argument("--rounds", type=int, default=usual, help=f"(default {usual})")
        one.add_argument("--target", choices=[*FLAVOURS, "tidb"], help="the only one (default: both flavours in turn)")
    altering.add_argument("--way", choices=SAFE, help="how each round begins, and its safe mode (default: in turn)")
    altering.add_argument(
        "--lives", type=int, default=ddl.LIVES, help=f"groups of a source's tables (default {ddl.LIVES})"
    )
    altering.add_argument("--plain", action="store_true", help="drivers without Spark, and no Python workers to kill")
    changes = add("ddl-model", partial(_histories, model.play_ddl), "random histories of the model of DDL")
    loads = add(
        "rounds-model", partial(_histories, model.play_rounds), "random histories of the model of loads and sync"
    )
    places = add(
        "moves-model", _moves_model, "all states of random histories of the model of rows that move beside DDL"
    )
    places.add_argument("--histories", type=int, default=10_000, help="(default 10,000)")
    for one in (changes, loads):
        one.add_argument("--histories", type=int, default=100_000, help="(default 100,000)")
    states = add("shard-model", _shard_model, "all states of the model of shard DDL")
    states.add_argument("--sources", type=int, default=3, help="with two shards each (default 3)")
    states.add_argument("--ddls", type=int, default=3, help="that all of them make (default 3)")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
