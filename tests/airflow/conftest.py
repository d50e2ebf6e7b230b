"""Tests that run in Airflow: with `dag.test()` in this process, or in an Airflow of our own (`testbed.airflow`).

Airflow reads its home when it is imported, so the environment is set here, before any test module. Nothing of the
user's own Airflow is seen."""

import base64
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from testbed.airflow import USER, Airflow, AirflowSpec, provider_metadata, running_airflow
from tests.airflow.support import RunDag, chromium, log_in
from tests.conftest import REQUIRED

HERE = Path(__file__).parent
HOME = Path(tempfile.mkdtemp(prefix="dm-airflow-tests-"))
for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
    del os.environ[name]
os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__FERNET_KEY": base64.urlsafe_b64encode(os.urandom(32)).decode(),  # of this process and its children
    "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME / 'airflow.db'}",
    "AIRFLOW__CORE__DAGS_FOLDER": str(HOME / "dags"),
}
if provider_metadata(HOME / "site") is not None:
    sys.path.append(str(HOME / "site"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{HERE}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):  # of ten thousand tests
            item.add_marker(pytest.mark.airflow)
    # The longest first, one after another: no test between them finds the event loop of their browser.
    items.sort(key=shares_airflow, reverse=True)


def pytest_unconfigure() -> None:
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """Airflow's own tables, once for this session."""
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture(autouse=True)
def triggers_poll_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trigger of this process runs after its task: it need not wait until the deferral is recorded."""
    monkeypatch.setattr("airflow_provider_dm.triggers.base.FIRST_DELAY_SECONDS", 0.0)


@pytest.fixture
def run_dag(tmp_path: Path, airflow_database: None) -> RunDag:
    """`run_dag(dag)` runs all tasks of a DAG in this process and gives the DAG run."""

    def run(dag: Any, **options: Any) -> Any:
        from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
        from airflow.models.dagbundle import DagBundleModel
        from airflow.utils.session import create_session

        with create_session() as session:
            session.merge(DagBundleModel(name="test_bundle"))
        bag = DagBag(tmp_path)
        bag.bag_dag(dag)
        sync_bag_to_db(bag, "test_bundle", None)
        return dag.test(**options)

    return run


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`connection("replica_01", conn_type="dm_database", …)` defines an Airflow connection for one test."""
    import json

    def define(conn_id: str, **parts: Any) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(parts))

    return define


@pytest.fixture
def work_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`[dm] work_dir` of one test."""
    monkeypatch.setenv("AIRFLOW__DM__WORK_DIR", str(tmp_path / "work"))
    return tmp_path / "work"


SHARED: Final = pytest.StashKey[ExitStack]()


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Airflow]:
    """A whole Airflow with scheduler, triggerer and UI, for all tests that need one; its DAGs are in `dags/` here.

    Once it has become ready, it is shared: a test uses source-ids and DAG runs of its own. It ends after the last of
    them: an Airflow takes a tenth of a processor even while it has nothing to do."""
    home = tmp_path_factory.mktemp("airflow") / "home"
    users = {"core": {"simple_auth_manager_users": f"{USER}:admin,olga:op,vic:viewer"}}
    with ExitStack() as stack:
        running = stack.enter_context(running_airflow(AirflowSpec(home=home, dags=HERE / "dags", settings=users)))
        pytestconfig.stash[SHARED] = stack
        yield running


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    stack = item.config.stash.get(SHARED, None)
    if stack is None:
        return
    items = item.session.items
    if not any(map(shares_airflow, items[items.index(item) + 1 :])):
        stack.close()


def shares_airflow(item: pytest.Item) -> bool:
    return "airflow" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def browser(airflow: Airflow, pytestconfig: pytest.Config) -> Browser:
    """A browser that ends with the shared Airflow."""
    path = chromium()
    if path is None:
        (pytest.fail if REQUIRED else pytest.skip)("no chromium: apt-get install chromium-headless-shell")
    stack = pytestconfig.stash[SHARED]
    playwright = stack.enter_context(sync_playwright())
    browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
    stack.callback(browser.close)
    return browser


@pytest.fixture(scope="session")
def logged_in(airflow: Airflow, browser: Browser) -> BrowserContext:
    """A browser that is logged in as admin: to load the UI for the first time takes ten seconds."""
    return log_in(browser, airflow, airflow.user, viewport={"width": 1400, "height": 1400})


@pytest.fixture
def page(logged_in: BrowserContext, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    page, failed = logged_in.new_page(), request.session.testsfailed
    yield page
    if request.session.testsfailed > failed:
        page.screenshot(path=str(tmp_path / "last.png"))
    page.close()
