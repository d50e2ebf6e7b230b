"""`dmctl`: the arguments, the dispatch, and the only place where an error becomes an exit code."""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
from collections.abc import Sequence
from itertools import groupby
from types import ModuleType
from typing import cast

from airflow_provider_dm import __version__
from airflow_provider_dm.cli import unsupported_verbs
from airflow_provider_dm.cli.errors import Interrupted, UsageError
from airflow_provider_dm.cli.output import Exit, Output, exit_code_of, log_to_stderr
from airflow_provider_dm.cli.parsing import HelpFormatter, Parser, VerbFunction, Verbs, options_after_verb
from airflow_provider_dm.cli.verbs import TEXT_VERBS, VERBS, WITH_ACTIONS
from airflow_provider_dm.engine.errors import DmError

DESCRIPTION = "Data migration for MySQL-compatible databases, with DM's task and source files."
EPILOG = (
    "Begin with `doctor TASK.yaml -s SOURCE.yaml`, then `run` with the same files. "
    "Options may precede or follow the verb. `VERB --help` shows its options and examples. "
    "exit codes: 0 done, 1 failed, 2 wrong command line, 3 another run has taken over, "
    "4 source and target differ, 5 precheck failed, 6 done except for DDL that waits for other shards, "
    "130 interrupted (the same command continues)"
)


def main(argv: Sequence[str] | None = None, program: str = "dmctl") -> int:
    """Run the console script. Return the exit code; output.py describes each."""
    words = options_after_verb((sys.argv[1:] if argv is None else argv) or ["--help"], VERBS, WITH_ACTIONS)
    try:
        return _run(words, program)
    except UsageError as error:
        usage, message = error.args
        output = Output(as_json="--json" in words)
        if output.as_json or (TEXT_VERBS.isdisjoint(words) and not output.on_terminal):
            output.document({"result": False, "msg": message})
        print(usage + message, file=sys.stderr)
        return Exit.USAGE


def _run(words: Sequence[str], program: str) -> int:
    top = parser(words, program)
    arguments, unknown = top.parse_known_args(words)
    if unknown and arguments.command is not unsupported_verbs.refuse:
        top.error(f"unrecognized arguments: {' '.join(unknown)}")
    output = Output(as_json=arguments.json)
    log_to_stderr(verbose=arguments.verbose)
    try:
        # argparse keeps the value of set_defaults without its type.
        return cast(VerbFunction, arguments.command)(arguments, output)
    except DmError as error:
        output.failure(error, document=arguments.verb not in TEXT_VERBS)
        return exit_code_of(error)
    except KeyboardInterrupt:
        output.failure(Interrupted(f"dmctl {arguments.verb}"))
        return Exit.INTERRUPTED


def parser(words: Sequence[str], program: str = "dmctl") -> Parser:
    """Return the parser for these words: it knows all verbs, and the arguments of the requested verb.

    --json and --verbose are options of every verb.
    """
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print the answer as one JSON object on stdout")
    shared.add_argument("--verbose", "-v", action="store_true", help="log to stderr")
    top = Parser(program, description=DESCRIPTION, epilog=EPILOG, formatter_class=HelpFormatter)
    top.add_argument("--version", action="version", version=f"{program} {__version__}")
    described = {name: verb.help for name, verb in VERBS.items()}
    examples = {name: tuple(f"{program} {example}" for example in verb.examples) for name, verb in VERBS.items()}
    verbs = Verbs(top.add_subparsers(dest="verb", required=True, metavar="VERB"), shared, described, examples)
    asked = next((VERBS[word].module for word in words if word in VERBS), None)
    for module, names in groupby(VERBS, key=lambda name: VERBS[name].module):
        if module == asked:
            _imported(module).add_verbs(verbs)
        else:
            for name in names:
                verbs.subparsers.add_parser(name, help=described[name])  # not requested: only listed in the help
    return top


def _imported(room: str) -> ModuleType:
    """Return the module of some verbs, imported at the first call with its dependencies.

    Garbage collection is off meanwhile: an import makes no garbage, and searching for it takes a third of the time.
    """
    name = f"{__package__}.{room}"
    if name in sys.modules:
        return sys.modules[name]
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()


if __name__ == "__main__":
    sys.exit(main())
