"""`python -m tests.ddl_campaign [--target tidb] [--source mysql] [--only WORDS] [--remedies] [--write]`: pair by pair.

Exits with 1 if tables differ, or if a case has another outcome than its table lists; `--write` corrects the tables."""

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from testbed import ServerSpec, running_servers
from tests.ddl_campaign.campaign import DIFFERENT, REFUSED, Campaign, campaign_kit
from tests.ddl_campaign.cases import EQUAL, FILES, SOURCES, all_cases, with_outcomes

SCHEMA = "ddl"


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    logging.disable(logging.WARNING)
    cases = [case for case in all_cases() if options.only.lower() in str(case).lower()]
    outcomes: defaultdict[str, dict[str, str]] = defaultdict(dict)
    failed = 0
    for target_flavour in options.target:
        for source_flavour in options.source:
            pair, begun = f"{source_flavour}>{target_flavour}", time.monotonic()
            specs = [ServerSpec("source", source_flavour), ServerSpec("target", target_flavour)]
            with running_servers(specs) as (source, target), tempfile.TemporaryDirectory() as folder:
                for server in (source, target):
                    server.sql(f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
                with campaign_kit(source, target, SCHEMA, Path(folder)) as kit:
                    found = Campaign(kit, remedies=options.remedies).run(cases)
            counts = Counter(one.outcome for one in found)
            for one in found:
                expected = one.case.expected(source_flavour, target_flavour)
                if one.outcome not in (DIFFERENT, REFUSED):
                    outcomes[one.case.where][pair] = one.outcome
                if one.outcome != expected or one.remedy not in ("", EQUAL):
                    failed += 1
                    print(f"{one.case}\n    {pair}: {one.outcome}, not {expected}\n    {one.why}", flush=True)
            ends = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
            walked = sum(one.remedy == EQUAL for one in found)
            seconds = time.monotonic() - begun
            print(f"{pair}: {len(found)} cases: {ends}; {walked} equal by their remedy ({seconds:.0f} s)", flush=True)
    if options.write:
        for file in FILES:
            file.write_text(with_outcomes(file, outcomes), "utf-8")
    return 1 if failed else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.ddl_campaign", description=__doc__)
    parser.add_argument("--target", nargs="+", choices=(*SOURCES, "tidb"), default=["tidb"])
    parser.add_argument("--source", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--only", default="", help="cases whose line has these words")
    parser.add_argument("--remedies", action="store_true", help="try the remedy of each type change that stops")
    parser.add_argument("--write", action="store_true", help="write the outcomes into the tables of statements")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
