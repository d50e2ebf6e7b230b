"""Runs the two sides of a comparison in turn in one session, and computes their figures.

What is true here:
- A ratio is the only figure that outlives a machine. Subject and peer alternate, and each repeat changes who is first,
  so that a machine that gets slower or busier does so for both.
- Figures are medians; the range of the paired ratios is given beside them. Less than 15 % is no difference.
- CPU seconds and peak memory are those of the side's whole process tree; the database servers' CPU is counted apart.
  Preparing and checking a run is in none of the figures.
- "Others' cores" is what everybody else used while a side ran. With much of it, wall-clock figures say little: then
  look at the ratio per CPU second.

The table goes to stderr; with `--json`, one JSON object is all that stdout gets.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Final, ParamSpec

from testbed import Server
from tests.benchmarks.processes import TICKS, busy_seconds, cpu_of, own_cpu, peak_rss_of, processor

P = ParamSpec("P")

MEGA: Final = 1e6


@dataclass(frozen=True)
class Run:
    """One run of one side. `amount` is in the case's unit; `extra` holds further figures, to be shown as medians."""

    amount: float
    seconds: float
    cpu_seconds: float
    peak_bytes: float
    extra: Mapping[str, float] = field(default_factory=dict)
    server_cpu_seconds: float = 0.0
    others_cores: float = 0.0


def _nothing() -> None: ...


@dataclass(frozen=True)
class Side:
    """One of two ways to do the same work. `prepare` and `check` run before and after each `run`, and do not count."""

    name: str
    run: Callable[[], Run]
    prepare: Callable[[], object] = _nothing
    check: Callable[[], object] = _nothing


@dataclass(frozen=True)
class Case:
    """One workload. Without a peer there is a rate and no ratio."""

    name: str
    unit: str
    subject: Side
    peer: Side | None = None

    @property
    def sides(self) -> tuple[Side, ...]:
        return (self.subject,) if self.peer is None else (self.subject, self.peer)


@dataclass(frozen=True)
class Outcome:
    """All runs of a case, in the order of the repeats."""

    case: Case
    runs: Mapping[str, Sequence[Run]]

    def rate(self, side: Side) -> float:
        """Units per second."""
        return median(run.amount / run.seconds for run in self.runs[side.name])

    def rate_per_cpu(self, side: Side) -> float:
        """Units per CPU second of the side, servers not counted."""
        return median(run.amount / max(run.cpu_seconds, 1 / TICKS) for run in self.runs[side.name])

    def paired_ratios(self) -> list[float]:
        """Subject to peer, for every repeat."""
        if self.case.peer is None:
            return []
        pairs = zip(self.runs[self.case.subject.name], self.runs[self.case.peer.name], strict=True)
        return [(ours.amount / ours.seconds) / (theirs.amount / theirs.seconds) for ours, theirs in pairs]


def with_start(outcome: Outcome) -> Outcome:
    """Return the same runs by the clock of the whole process, where a side has one (`process_seconds`)."""
    runs = {
        name: [replace(run, seconds=run.extra.get("process_seconds", run.seconds)) for run in runs]
        for name, runs in outcome.runs.items()
    }
    return Outcome(replace(outcome.case, name=f"{outcome.case.name}_with_start"), runs)


# Running


def measure(cases: Sequence[Case], repeats: int, servers: Sequence[Server]) -> list[Outcome]:
    """Run every case `repeats` times, sides in turn. `servers`: whose CPU is counted apart."""
    outcomes = []
    for case in cases:
        runs: dict[str, list[Run]] = {side.name: [] for side in case.sides}
        for repeat in range(repeats):
            for side in case.sides if repeat % 2 == 0 else reversed(case.sides):
                note(f"{case.name} {repeat + 1}/{repeats}: {side.name}")
                side.prepare()
                runs[side.name].append(_observed(side, servers))
                side.check()
        outcomes.append(Outcome(case, runs))
    return outcomes


def _observed(side: Side, servers: Sequence[Server]) -> Run:
    """A run, with what servers and others used meanwhile."""
    began, busy, own, serving = time.monotonic(), busy_seconds(), own_cpu(), _server_cpu(servers)
    run = side.run()
    serving = _server_cpu(servers) - serving
    others = busy_seconds() - busy - (own_cpu() - own) - serving
    return replace(run, server_cpu_seconds=serving, others_cores=max(0.0, others / (time.monotonic() - began)))


def in_child(body: Callable[P, Run], /, *args: P.args, **kwargs: P.kwargs) -> Run:
    """Run `body` in a fresh Python process; its peak memory is that process's. What `body` raises is raised here."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_child, body, *args, **kwargs).result()


def _child(body: Callable[P, Run], /, *args: P.args, **kwargs: P.kwargs) -> Run:
    return replace(body(*args, **kwargs), peak_bytes=peak_rss_of(os.getpid()))


def timed(work: Callable[[], float], *, at_least_seconds: float = 0.0) -> Run:
    """Call `work`, which gives the amount that it did, again and again for that long; wall and CPU of this process."""
    amount, began, cpu = 0.0, time.perf_counter(), time.process_time()
    while True:
        amount += work()
        seconds = time.perf_counter() - began
        if seconds >= at_least_seconds:
            return Run(amount, seconds, time.process_time() - cpu, 0.0)


def _server_cpu(servers: Sequence[Server]) -> float:
    return sum(cpu_of(server.pid) or 0.0 for server in servers)


# Telling


def arguments(
    doc: str | None, *, repeats: int, cases: Sequence[str], usual: Sequence[str] = (), targets: Sequence[str] = ()
) -> argparse.Namespace:
    """Return the options `json`, `repeats`, `cases`, `size`, and `target` if there are several.

    `usual`: the cases that run if none is named; (): all of them.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument(
        "--repeats", type=int, default=repeats, help="of every side of every case (default %(default)s)"
    )
    parser.add_argument(
        "--cases",
        type=lambda names: names.split(","),
        default=list(usual or cases),
        help=f"some of {','.join(cases)} (default {','.join(usual) or 'all'})",
    )
    parser.add_argument("--size", type=float, default=1.0, help="factor of the amount of work; small to try a case")
    if targets:
        parser.add_argument("--target", choices=targets, default=targets[0], help="(default %(default)s)")
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error("--repeats has to be 1 or more")
    if unknown := sorted({*options.cases} - {*cases}):
        parser.error(f"--cases: no case {', '.join(unknown)}; the cases are {', '.join(cases)}")
    return options


def note(text: str) -> None:
    """Say what happens now, for a user who waits."""
    print(f"  … {text}", file=sys.stderr, flush=True)


def publish(
    name: str,
    outcomes: Sequence[Outcome],
    options: argparse.Namespace,
    servers: Sequence[Server],
    ratio: str = "ratio_{}",
    **figures: float | str,
) -> None:
    """Print the table, and the JSON object if it was asked for: at its top the ratio of each case, whose name `ratio`
    gives, and the given figures.
    """
    ratios = {ratio.format(one.case.name): median(one.paired_ratios()) for one in outcomes if one.case.peer is not None}
    report: dict[str, Any] = {
        "benchmark": name,
        **_rounded(ratios | figures),
        "repeats": options.repeats,
        "size": options.size,
        "cpus": len(os.sched_getaffinity(0)),
        "processor": processor(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "servers": sorted({f"{server.flavour} {server.version}" for server in servers}),
        "cases": {one.case.name: _described(one) for one in outcomes},
    }
    print(_table(report), file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps(report))


def _described(outcome: Outcome) -> dict[str, Any]:
    case = outcome.case
    sides = {role: _side(outcome, side) for role, side in zip(("subject", "peer"), case.sides, strict=False)}
    if case.peer is None:
        return {"unit": case.unit, **sides}
    per_cpu = outcome.rate_per_cpu(case.subject) / outcome.rate_per_cpu(case.peer)
    pairs = outcome.paired_ratios()
    ratios = _rounded({"ratio": median(pairs), "ratio_low": min(pairs), "ratio_high": max(pairs), "ratio_cpu": per_cpu})
    return {"unit": case.unit, **ratios, **sides}


def _side(outcome: Outcome, side: Side) -> dict[str, Any]:
    runs = outcome.runs[side.name]
    extra = {key: median(run.extra[key] for run in runs) for key in runs[0].extra}
    return {"name": side.name} | _rounded(
        {
            "per_second": outcome.rate(side),
            "per_cpu_second": outcome.rate_per_cpu(side),
            "amount": median(run.amount for run in runs),
            "seconds": median(run.seconds for run in runs),
            "cpu_seconds": median(run.cpu_seconds for run in runs),
            "server_cpu_seconds": median(run.server_cpu_seconds for run in runs),
            "peak_mb": max(run.peak_bytes for run in runs) / MEGA,
            "others_cores": median(run.others_cores for run in runs),
            **extra,
        }
    )


def _rounded(figures: Mapping[str, float | str]) -> dict[str, float | str]:
    """Four significant digits are more than any of them deserves."""
    return {
        key: value if isinstance(value, str) else float(f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}")
        for key, value in figures.items()
    }


_LINE: Final = "{:<21} {:<30} {:>15} {:>15} {:>8} {:>8} {:>8} {:>8} {:>8}"
_HEADINGS: Final = ("case", "side", "per second", "per CPU s", "seconds", "CPU s", "server", "peak MB", "others")


def _table(report: Mapping[str, Any]) -> str:
    load = " ".join(f"{load:.2f}" for load in report["load_average"])
    lines = [
        f"{report['benchmark']}: medians of {report['repeats']}",
        f"{report['cpus']} CPUs ({report['processor']}), load average {load}, {', '.join(report['servers'])}",
        _LINE.format(*_HEADINGS),
    ]
    for name, case in report["cases"].items():
        sides = [case[role] for role in ("subject", "peer") if role in case]
        lines += [_line("" if number else name, case["unit"], side) for number, side in enumerate(sides)]
        if "ratio" in case:
            lines.append(
                f"{'':<21} ratio {case['ratio']:.4g} ({case['ratio_low']:.4g} to {case['ratio_high']:.4g}), "
                f"per CPU second {case['ratio_cpu']:.4g}"
            )
    figures = {key: value for key, value in report.items() if isinstance(value, float) and key[:6] != "ratio_"}
    lines += [f"{key}: {value:.4g}" for key, value in figures.items()]
    return "\n".join(lines)


def _line(case: str, unit: str, side: Mapping[str, Any]) -> str:
    rates = [f"{_short(side[key])} {unit}" for key in ("per_second", "per_cpu_second")]
    rest = (f"{side[key]:.2f}" for key in ("seconds", "cpu_seconds", "server_cpu_seconds"))
    return _LINE.format(case, side["name"], *rates, *rest, f"{side['peak_mb']:.0f}", f"{side['others_cores']:.2f}")


def _short(value: float) -> str:
    """
    >>> _short(2_130_000), _short(93_400), _short(12.34)
    ('2.13M', '93.4k', '12.3')
    """
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
