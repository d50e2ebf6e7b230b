"""The precheck as dmctl shows it: `check-task`, and the first phase of `run`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from airflow_provider_dm.cli.inputs import add_file_arguments, read_arguments
from airflow_provider_dm.cli.output import Exit, Output
from airflow_provider_dm.cli.parsing import Verbs
from airflow_provider_dm.engine.precheck.errors import PrecheckFailed
from airflow_provider_dm.engine.precheck.result import CheckResult, PrecheckReport
from airflow_provider_dm.engine.precheck.run import run_precheck
from airflow_provider_dm.launch.inputs import Inputs
from airflow_provider_dm.launch.starts import with_starts
from airflow_provider_dm.launch.workdir import work_root


def add_verbs(verbs: Verbs) -> None:
    parser = verbs.add("check-task", check_task)
    add_file_arguments(parser)


def check_task(arguments: argparse.Namespace, output: Output) -> Exit:
    """Print DM's document with every check; the exit code is 5 if one failed."""
    inputs = with_starts(read_arguments(arguments.task, arguments.sources, arguments.password_env))
    report = _checked(inputs, work_root())
    try:
        report.require_passed()
    except PrecheckFailed as error:
        show(report.failures, output)
        output.failure(error, to_json(report), document=True)
        return Exit.PRECHECK
    show(report.warnings, output)
    return output.document({"result": True, "msg": "check pass!!!", **to_json(report)})


def require_precheck(inputs: Inputs, root: Path, output: Output) -> None:
    """Show warnings and failures. Raises PrecheckFailed."""
    report = _checked(inputs, root)
    show((*report.warnings, *report.failures), output)
    report.require_passed()


def show(results: tuple[CheckResult, ...], output: Output) -> None:
    """Print each result with its remedy on one line."""
    for result in results:
        output.print_line(str(result))


def to_json(report: PrecheckReport) -> dict[str, Any]:
    """Return the report in the format of DM's check-task: `results` with remedies, and a `summary`."""
    results = [
        {
            "id": number,
            "name": result.name,
            "source": result.where,
            "state": result.state.value,
            "errorMsg": result.message,
            "instruction": result.remedy,
        }
        for number, result in enumerate(report.results)
    ]
    failed, warned = len(report.failures), len(report.warnings)
    summary = {
        "passed": report.passed,
        "total": len(results),
        "successful": len(results) - failed - warned,
        "failed": failed,
        "warning": warned,
    }
    return {"results": results, "summary": summary}


def _checked(inputs: Inputs, root: Path) -> PrecheckReport:
    return run_precheck(inputs.task, inputs.pairs, inputs.target, inputs.relay_dirs(root))
