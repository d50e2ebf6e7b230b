"""The form of our connection types and its Test button, in a browser and by the API."""

import pytest
from playwright.sync_api import Page, expect

from testbed import Server
from testbed.airflow import Airflow

CANARY = "c4nary-in-the-form"
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def account(mariadb_source: Server) -> Server:
    mariadb_source.create_user("form", CANARY)
    return mariadb_source


def test_the_api_tests_connections_of_our_types(airflow: Airflow, account: Server) -> None:
    where = {"host": account.host, "port": account.port, "login": "form"}
    ok, message = airflow.api.test_connection(conn_type="dm_database", **where, password=CANARY)
    assert ok
    assert "MariaDB" in message
    ok, message = airflow.api.test_connection(conn_type="dm_database", **where, password="wrong")
    assert not ok
    assert "denies access" in message
    ok, message = airflow.api.test_connection(
        conn_type="dm_database", **where, password=CANARY, extra={"flavour": "tidb"}
    )
    assert not ok
    assert "has the flavour tidb" in message
    ok, message = airflow.api.test_connection(conn_type="dm_meta", port=0, schema=str(airflow.home / "meta.db"))
    assert ok, message
    assert "the first task will create it" in message
    ok, message = airflow.api.test_connection(conn_type="dm_meta", **where, password="wrong", schema="x")
    assert not ok
    assert "wrong" not in message


@pytest.mark.browser
def test_a_user_adds_a_database_and_presses_test(airflow: Airflow, account: Server, page: Page) -> None:
    page.goto(f"{airflow.url}/connections")
    page.get_by_role("button", name="Add Connection").click()
    page.get_by_role("dialog").get_by_role("combobox").first.click()
    page.keyboard.type("DM database")
    page.get_by_role("option", name="DM database").click()
    page.fill("input[name=connection_id]", "made_in_the_form")
    page.fill("input[name=host]", account.host)
    page.fill("input[name=port]", str(account.port))
    page.fill("input[name=login]", "form")
    page.fill("input[name=password]", CANARY)
    page.get_by_role("button", name="Extra Fields", exact=True).click()
    dialog = page.get_by_role("dialog")
    for label in ("Flavour", "Use TLS", "TLS CA file", "TLS certificate file", "TLS key file", "Session variables"):
        expect(dialog.get_by_text(label, exact=True)).to_be_visible()
    expect(dialog.get_by_text("auto", exact=True)).to_be_visible()
    page.get_by_role("button", name="Save").click()

    row = page.get_by_role("row", name="made_in_the_form")
    row.get_by_role("button", name="Test Connection").click()
    expect(page.get_by_text("Ready as a source. Ready as a target.")).to_be_visible()
    assert CANARY not in page.content()

    account.sql("ALTER USER 'form'@'%' IDENTIFIED BY 'changed'")
    try:
        row.get_by_role("button", name="Test Connection").click()
        expect(page.get_by_text("DM-2002")).to_be_visible()
        assert CANARY not in page.content()
    finally:
        account.sql(f"ALTER USER 'form'@'%' IDENTIFIED BY '{CANARY}'")
