"""The page "DM" in Airflow's UI: a running sync in a browser, behind Airflow's login."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from testbed import Server
from testbed.airflow import Airflow
from tests.airflow.support import connected, log_in, running, sync_task, token_of, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.browser, pytest.mark.timeout(1500)]
CANARY: Final = "c4nary-of-the-page"
SCHEMA: Final = "t_page"
TASK: Final = "page_sync"
SOURCE: Final = "sync_source"
DAG_ID: Final = "sync_for_ever"
IMAGES: Final = Path(__file__).resolve().parents[2] / "docs" / "images"


class LiveSync:
    """A sync under Airflow that runs until the last test, while a client writes to its source."""

    def __init__(self, airflow: Airflow, source: Server, target: Server) -> None:
        self.airflow, self.source, self.target = airflow, source, target
        self.ended = threading.Event()
        self._writer = threading.Thread(target=self._write)
        self.run_id = ""

    def start(self) -> None:
        task = sync_task(self.airflow, self.source, name=TASK, source_id=SOURCE, schema=SCHEMA)
        self.run_id = self.airflow.api.trigger(DAG_ID, {"task": task})
        self._writer.start()
        wait_for(lambda: self.target.sql(f"SELECT COUNT(*) FROM {SCHEMA}.orders")[0][0])

    def _write(self) -> None:
        while not self.ended.wait(2):
            self.source.sql(f"INSERT INTO {SCHEMA}.orders (n) VALUES " + ", ".join(["(1)"] * 200))

    def end(self) -> None:
        self.ended.set()
        self._writer.join()
        self.airflow.api.set_task_state(DAG_ID, self.run_id, "sync", "failed")
        wait_for(lambda: not running(self.airflow, b"incremental_sync"))


@pytest.fixture(scope="module")
def live(airflow: Airflow, mysql_source: Server, mariadb_target: Server) -> Iterator[LiveSync]:
    servers = {SOURCE: mysql_source, "sync_target": mariadb_target}
    for server in servers.values():
        server.sql(
            f"CREATE DATABASE {SCHEMA}; CREATE TABLE {SCHEMA}.orders (id BIGINT PRIMARY KEY AUTO_INCREMENT, n INT)"
        )
    with connected(airflow, servers, CANARY, SCHEMA):
        live = LiveSync(airflow, mysql_source, mariadb_target)
        live.start()
        yield live
        live.end()


def screenshot(page: Page, name: str) -> None:
    """Keep a picture for the docs where that is asked for: DM_SCREENSHOTS=1."""
    if os.environ.get("DM_SCREENSHOTS") == "1":
        IMAGES.mkdir(exist_ok=True)
        page.screenshot(path=str(IMAGES / f"{name}.png"))


def test_a_user_finds_the_sync_and_its_progress(airflow: Airflow, live: LiveSync, page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 860})
    page.goto(f"{airflow.url}/")
    page.get_by_role("link", name="DM", exact=True).click()
    dm = page.frame_locator("iframe[title=DM]")
    expect(dm.get_by_role("heading", name="Everything is in sync")).to_be_visible()
    row = dm.get_by_role("row", name=SOURCE)
    expect(row.get_by_text("In sync")).to_be_visible()
    expect(row).to_contain_text("mysql-bin.")
    screenshot(page, "dm-page")

    dm.get_by_role("link", name=TASK, exact=True).click()
    expect(dm.get_by_role("heading", name=TASK)).to_be_visible()
    expect(page).to_have_url(f"{airflow.url}/plugin/dm/dm/?task={TASK}")
    expect(dm.get_by_role("list", name="Locations in the log")).to_contain_text("Relay log")
    plot = dm.get_by_role("img", name="Rows per second over")
    plot.focus()
    page.keyboard.press("ArrowLeft")
    expect(dm.locator(f"[data-plot-value='{TASK}/{SOURCE}/rate']")).to_contain_text("·")
    before = dm.locator(".tile", has_text="Transactions").inner_text()
    expect(dm.locator(".tile", has_text="Transactions")).not_to_have_text(before)  # it is live
    screenshot(page, "dm-task")

    dm.get_by_role("link", name=f"{DAG_ID} / sync").first.click()
    expect(page).to_have_url(f"{airflow.url}/dags/{DAG_ID}/runs/{quoted(live.run_id)}/tasks/sync")
    page.get_by_role("link", name="Details").click()
    link = page.get_by_role("link", name="DM page")  # while the task runs
    expect(link).to_have_attribute("href", f"{airflow.url}/plugin/dm/dm/?task={TASK}")

    spark = str(page.get_by_role("link", name="Spark UI").get_attribute("href"))
    page.goto(spark)
    expect(page).to_have_title("dm-page_sync-incremental_sync - Spark Jobs")
    assert not page.url.startswith(airflow.url)
    page.goto(spark.replace("/spark-ui", "0/spark-ui"))
    expect(page.get_by_text("has no Spark UI now")).to_be_visible()


def quoted(run_id: str) -> str:
    return run_id.replace(":", "%3A").replace("+", "%2B")


@pytest.mark.parametrize("of_task", ["", "/tasks/sync"], ids=["DAG run", "task instance"])
def test_it_is_a_tab_of_the_run_and_of_the_task_instance(
    airflow: Airflow, live: LiveSync, page: Page, of_task: str
) -> None:
    page.goto(f"{airflow.url}/dags/{DAG_ID}/runs/{quoted(live.run_id)}{of_task}")
    tab = page.locator(f"a[href$='/plugin/{'dm-task' if of_task else 'dm-run'}']")
    tab.click()
    dm = page.frame_locator("iframe[title=DM]")
    expect(dm.get_by_role("heading", name=TASK)).to_be_visible()


def test_a_tab_shows_the_task_of_a_task_instance_without_a_run(airflow: Airflow, live: LiveSync, page: Page) -> None:
    """A sensor and a relay have no run of ours, but an address of the page: as they push it, but without their work."""
    run = airflow.api.trigger("sync_for_a_while", paused=True)
    tab = f"{airflow.url}/dm/?dag_id=sync_for_a_while&run_id={quoted(run)}"
    xcoms = f"/dags/sync_for_a_while/dagRuns/{run}/taskInstances/sync/xcomEntries"
    page.goto(f"{airflow.url}/dm/?source=of-no-relay-yet")
    expect(page.get_by_role("heading", name="No DM task here")).to_be_visible()
    page.goto(f"{tab}&task_id=sync&map_index=-1")
    expect(page.get_by_role("heading", name="No DM task here")).to_be_visible()
    airflow.api.call("POST", xcoms, {"key": "dm_page_url", "value": f"{airflow.url}/plugin/dm/dm/?source={SOURCE}"})
    expect(page.get_by_role("heading", name=TASK)).to_be_visible()
    page.goto(tab)
    expect(page.get_by_role("heading", name=TASK)).to_be_visible()


def test_another_dag_run_has_no_task_of_ours(airflow: Airflow, live: LiveSync, page: Page) -> None:
    page.goto(f"{airflow.url}/dm/?dag_id={DAG_ID}&run_id=another")
    expect(page.get_by_role("heading", name="No DM task here")).to_be_visible()
    page.get_by_role("link", name="Show all tasks").click()
    expect(page.get_by_role("heading", name="Everything is in sync")).to_be_visible()


def test_the_keyboard_reaches_everything(airflow: Airflow, live: LiveSync, page: Page) -> None:
    page.goto(f"{airflow.url}/dm/")
    page.get_by_role("heading", level=1).wait_for()
    names = []
    for _ in range(6):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.textContent"))
    assert names[:3] == ["Skip to content", "Airflow", TASK]
    page.get_by_role("link", name=TASK, exact=True).focus()
    page.wait_for_timeout(4500)  # two answers later the focus is where it was
    assert page.evaluate("document.activeElement.textContent") == TASK
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=TASK)).to_be_visible()


@pytest.mark.parametrize("where", ["", f"?task={TASK}"], ids=["all", "task"])
def test_the_page_fits_a_phone(airflow: Airflow, live: LiveSync, page: Page, where: str) -> None:
    page.set_viewport_size({"width": 360, "height": 780})
    page.goto(f"{airflow.url}/dm/{where}")
    page.get_by_role("heading", level=1).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    if not where:
        screenshot(page, "dm-phone")


def test_its_theme_is_airflows_and_else_the_systems(
    airflow: Airflow, live: LiveSync, browser: Browser, logged_in: BrowserContext
) -> None:
    context = browser.new_context(storage_state=logged_in.storage_state(), color_scheme="dark")
    page = context.new_page()
    page.goto(f"{airflow.url}/dm/?task={TASK}")
    page.get_by_role("heading", level=1).wait_for()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.set_viewport_size({"width": 1280, "height": 860})
    screenshot(page, "dm-dark")
    page.evaluate("localStorage.setItem('theme', 'light')")
    page.reload()
    page.get_by_role("heading", level=1).wait_for()
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (dark, light) == ("rgb(14, 18, 23)", "rgb(245, 247, 249)")
    context.close()


PATHS: Final = ("/dm/", "/dm/api/status", "/dm/static/page.js", "/dm/static/page.css", "/dm/static/nothing.js")


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_readable_without_a_login(airflow: Airflow, browser: Browser, path: str) -> None:
    stranger = browser.new_context()
    answer = stranger.request.get(f"{airflow.url}{path}")
    assert answer.status == 401
    assert answer.json() == {"detail": "Not authenticated"}
    stranger.close()


def test_a_viewer_reads_it_and_no_secret_is_in_it(airflow: Airflow, live: LiveSync, browser: Browser) -> None:
    context = log_in(browser, airflow, "vic")
    script = browser.new_context(extra_http_headers={"Authorization": f"Bearer {token_of(airflow, 'vic')}"})
    assert CANARY not in script.request.get(f"{airflow.url}/dm/api/status").text()
    assert script.request.post(f"{airflow.url}/dm/api/pause", data={"task": TASK}).status == 403
    script.close()
    for path in ("/dm/", "/dm/api/status", f"/dm/api/status?task={TASK}"):
        answer = context.request.get(f"{airflow.url}{path}")
        assert answer.ok
        assert CANARY not in answer.text()
        assert "script-src 'self';" in answer.headers["content-security-policy"]
    page = context.new_page()
    page.goto(f"{airflow.url}/dm/?task={TASK}")
    page.get_by_role("heading", name=TASK).wait_for()
    assert CANARY not in page.content()
    assert page.get_by_role("button").count() == 0
    context.close()


def test_a_user_pauses_and_resumes(airflow: Airflow, live: LiveSync, page: Page) -> None:
    page.goto(f"{airflow.url}/dm/?task={TASK}")
    page.get_by_role("button", name="Pause…").focus()
    page.keyboard.press("Enter")  # by keyboard alone
    dialog = page.get_by_role("dialog", name=f"Pause {TASK}?")
    expect(dialog).to_contain_text("the lag grows until you resume it")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="Pause…")).to_be_focused()
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Pause", exact=True).click()
    expect(dialog).to_contain_text(f"{SOURCE}: paused.")
    page.keyboard.press("Escape")
    expect(page.get_by_text("Paused", exact=True)).to_be_visible()
    expect(page.get_by_text("A user has paused it.")).to_be_visible()

    page.get_by_role("button", name="Resume…").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text(f"{SOURCE}: resumed.")
    page.keyboard.press("Escape")
    expect(page.get_by_text("In sync", exact=True)).to_be_visible()


def test_a_user_purges_what_the_preview_shows(airflow: Airflow, live: LiveSync, page: Page) -> None:
    directory = airflow.home / "dm" / "relay" / SOURCE

    def files() -> list[str]:
        return sorted(path.name for path in directory.glob("*/mysql-bin.*"))

    live.source.sql("FLUSH BINARY LOGS")
    wait_for(lambda: len(files()) >= 2)
    oldest = files()[0]
    page.goto(f"{airflow.url}/dm/?task={TASK}")

    def preview_has_it() -> bool:
        page.get_by_role("button", name="Purge relay log…").click()
        page.get_by_role("dialog").get_by_role("heading").wait_for()
        found = page.get_by_role("dialog", name="Purge the relay log").is_visible()
        if not found:
            page.keyboard.press("Escape")
        return found

    wait_for(preview_has_it)  # as soon as the task has reported that it does not need the file
    assert oldest in files()
    page.get_by_role("dialog").get_by_role("button", name="Remove 1 file").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"{oldest} (")
    assert oldest not in files()


ACTIONS: Final = {
    "pause": {"task": TASK},
    "resume": {"task": TASK},
    "unlock": {"lock": "x", "number": 1, "action": "exec"},
    "binlog": {"task": TASK, "source": SOURCE, "place": "mysql-bin.000001:4", "kind": "skip"},
    "purge": {"source": SOURCE, "sub_dir": "x", "file": "mysql-bin.000001"},
}


@pytest.mark.parametrize("name", ACTIONS)
def test_only_op_and_above_may_act_and_only_from_the_page(
    airflow: Airflow, live: LiveSync, users: dict[str, BrowserContext], name: str
) -> None:
    def post(user: str, **headers: str) -> int:
        """On SQLite a request fails when it and Airflow's loop wait for each other (testbed/airflow.py)."""
        url = f"{airflow.url}/dm/api/{name}"
        statuses = (users[user].request.post(url, data=ACTIONS[name], headers=headers).status for _ in range(2))
        return next((status for status in statuses if status != 500), 500)

    ours = {"X-DM-Page": "1"}
    assert post("nobody", **ours) == 401
    assert post("vic", **ours) == 403
    assert post("olga") == 403
    assert post("olga", **ours, **{"Sec-Fetch-Site": "cross-site"}) == 403
    assert post("olga", **ours) == (200 if name in ("pause", "resume") else 409)
    assert users["olga"].request.get(f"{airflow.url}/dm/api/{name}").status in (404, 405, 422)


@pytest.fixture(scope="module")
def users(airflow: Airflow, browser: Browser) -> dict[str, BrowserContext]:
    """Browsers with the session cookies of an op and of a viewer, and one without."""
    return {user: log_in(browser, airflow, user) for user in ("olga", "vic")} | {"nobody": browser.new_context()}


def test_actions_are_in_airflows_audit_log(airflow: Airflow, live: LiveSync, users: dict[str, BrowserContext]) -> None:
    answer = users["olga"].request.post(
        f"{airflow.url}/dm/api/resume", data={"task": TASK, "source": SOURCE}, headers={"X-DM-Page": "1"}
    )
    assert answer.json() == {"msg": f"{SOURCE}: resumed."}
    (newest, *_) = airflow.api.call("GET", "/eventLogs?event=dm_resume&order_by=-when")["event_logs"]
    assert newest["owner"] == "olga"
    assert json.loads(newest["extra"]) == {"task": TASK, "source": SOURCE, "method": "POST"}

    for user, headers in {"vic": {"X-DM-Page": "1"}, "olga": {}}.items():
        refused = users[user].request.post(f"{airflow.url}/dm/api/pause", data={"task": TASK}, headers=headers)
        assert refused.status == 403
        (newest, *_) = airflow.api.call("GET", "/eventLogs?event=dm_pause_refused&order_by=-when")["event_logs"]
        assert newest["owner"] == user


def test_a_missing_lock_is_refused_with_its_error(
    airflow: Airflow, live: LiveSync, users: dict[str, BrowserContext]
) -> None:
    answer = users["olga"].request.post(
        f"{airflow.url}/dm/api/unlock", data=ACTIONS["unlock"], headers={"X-DM-Page": "1"}
    )
    assert answer.status == 409
    assert answer.json()["error"]["ErrCode"] == "DM-8020"


def test_a_text_that_is_not_unicode_is_refused(
    airflow: Airflow, live: LiveSync, users: dict[str, BrowserContext]
) -> None:
    body = {"data": r'{"task": "\ud800"}', "headers": {"X-DM-Page": "1", "Content-Type": "application/json"}}
    assert users["olga"].request.post(f"{airflow.url}/dm/api/pause", **body).status == 422  # type: ignore[arg-type]


def test_a_metadata_db_that_does_not_answer_is_shown_with_its_remedy(
    airflow: Airflow, live: LiveSync, page: Page
) -> None:
    page.goto(f"{airflow.url}/dm/")
    page.get_by_role("heading", level=1).wait_for()
    airflow.api.put_connection("dm_meta_default", conn_type="dm_meta", host="127.0.0.1", port=1, schema="dm")
    try:
        expect(page.get_by_role("alert")).to_contain_text("DM-8002", timeout=180_000)
        expect(page.get_by_role("alert")).to_contain_text("What to do")
        expect(page.get_by_role("alert")).to_contain_text("The page shows the state at")
        expect(page.get_by_role("link", name=TASK, exact=True)).to_be_visible()
    finally:
        airflow.api.call("DELETE", "/connections/dm_meta_default")
    expect(page.get_by_role("alert")).to_be_empty(timeout=180_000)


def test_a_user_skips_the_statement_that_stops_the_sync(airflow: Airflow, live: LiveSync, page: Page) -> None:
    """The last one: its table has another engine from then on."""
    live.source.sql(f"ALTER TABLE {SCHEMA}.orders ENGINE=MyISAM")
    page.set_viewport_size({"width": 1280, "height": 860})
    page.goto(f"{airflow.url}/dm/")
    expect(page.get_by_role("heading", name="One source needs your action")).to_be_visible(timeout=180_000)
    note = page.get_by_role("article").filter(has_text="DM-6032")
    expect(note).to_contain_text("What to do")
    screenshot(page, "dm-error")
    note.get_by_role("link", name=TASK).click()
    wait_for(lambda: airflow.api.run_state(DAG_ID, live.run_id) == "failed")  # its only source has stopped

    page.get_by_role("button", name="Skip the statement…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("ENGINE")
    dialog.get_by_role("button", name="Skip and resume").click()
    expect(dialog).to_contain_text("No run of the task is working: clear its task in Airflow")
    page.keyboard.press("Escape")
    airflow.api.clear(DAG_ID, live.run_id, "sync")
    expect(page.get_by_text("In sync", exact=True)).to_be_visible(timeout=180_000)
    (before,) = live.target.sql(f"SELECT COUNT(*) FROM {SCHEMA}.orders")[0]
    wait_for(lambda: live.target.sql(f"SELECT COUNT(*) FROM {SCHEMA}.orders")[0][0] > before)
