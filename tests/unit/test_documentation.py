"""The documentation matches the product: commands parse, links have a target, files exist."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from airflow_provider_dm.cli.main import parser
from airflow_provider_dm.cli.parsing import options_after_verb
from airflow_provider_dm.cli.verbs import VERBS, WITH_ACTIONS
from airflow_provider_dm.engine.config.yaml_file import parse_task
from tests.documents import PAGES, ROOT, Block, blocks, commands
from tests.reference.errors_page import every_error

LINK = re.compile(r"\]\((?!https?:)(?P<target>[^)\s]+)\)")
OF_THE_SYSTEM = {"sudo", "python3", ".", "umask", "cat", "cd", "git", "export", "tiup", "echo", "mv", "airflow"}
"""Programs of other people; tests/airflow has `airflow`."""

FILES = [
    f"/{file.relative_to(ROOT)}"
    for folder in ("airflow_provider_dm", "spark_apps", "tests", "dags", "docker")
    for file in (ROOT / folder).rglob("*.py")
]
COMMANDS = [
    pytest.param(words, id=f"{block.page.name}: {' '.join(words)}"[:90])
    for block in blocks()
    if block.kind == "bash"
    for words in commands(block)
]


def anchors(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    set_by_hand = re.findall(r'<a id="([\w-]+)">', text)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads} | set(set_by_hand)


@cache
def docker_local(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `docker/local` with words for which it installs and starts nothing."""
    return subprocess.run([ROOT / "docker" / "local", *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("nothing",), "unknown command: nothing"),
        (("bench", "nothing"), "bench needs the name of a module"),
        (("bench",), "decode"),
    ],
)
def test_docker_local_reports_unknown_commands(words: tuple[str, ...], answer: str) -> None:
    assert docker_local(*words).returncode == 1
    assert answer in docker_local(*words).stderr


def test_pages_have_commands() -> None:
    assert len(COMMANDS) > 50


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_is_understood(words: list[str]) -> None:
    program, *rest = words
    match program:
        case "dmctl":
            ordered = options_after_verb(rest, VERBS, WITH_ACTIONS)
            assert parser(ordered).parse_args(ordered).verb in VERBS
        case "./docker/local":
            assert re.search(rf"^  (\w+ \| )?{re.escape(rest[0])}\b", docker_local("help").stdout, re.MULTILINE)
            assert re.search(rf"^        {re.escape(rest[0])}\)", (ROOT / "docker" / "local").read_text(), re.MULTILINE)
            modules = [f"tests/benchmarks/{rest[1]}.py"] if rest[0] == "bench" and rest[1].islower() else []
            assert [
                file for file in (*modules, *rest) if file.startswith("tests/") and not (ROOT / file).exists()
            ] == []
        case "uv" | "pip":
            named = [rest[at + 1] for at, word in enumerate(rest) if word in ("--constraint", "--override")]
            assert [file for file in named if not (ROOT / file).exists()] == []
        case "pytest" | "python":
            assert [file for file in rest if file.endswith(".py") and not (ROOT / file).exists()] == []
        case "ruff" | "mypy" | "lint-imports":
            assert shutil.which(program)
        case _:
            assert "=" in program or program in OF_THE_SYSTEM


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_a_target(page: Path) -> None:
    for link in LINK.finditer(page.read_text()):
        file, _, anchor = link["target"].partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), link["target"]
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), link["target"]


def test_every_error_that_a_page_names_exists() -> None:
    codes = {kind.code for kind in every_error()} | {"DM-1234"}  # the example of concepts.md
    named = {(page.name, code) for page in PAGES for code in re.findall(r"DM-\d{4}", page.read_text())}
    assert {(page, code) for page, code in named if code not in codes} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    """A path counts from the repository, the package or the engine; a name alone is any file's."""
    named = set(re.findall(r"`((?:[\w-]+/)*\w+\.py)`", page.read_text()))
    assert [name for name in named if not any(file.endswith(f"/{name}") for file in FILES)] == []


def test_the_readme_leads_to_every_page() -> None:
    linked = {
        (ROOT / link["target"].partition("#")[0]).resolve() for link in LINK.finditer((ROOT / "README.md").read_text())
    }
    assert [str(page) for page in PAGES[1:] if page not in linked] == []


@pytest.mark.parametrize("block", [one for one in blocks() if one.kind == "yaml"], ids=lambda one: one.page.name)
def test_every_task_in_the_documentation_is_valid(block: Block) -> None:
    if block.text.startswith("name:"):
        parse_task(block.text)
