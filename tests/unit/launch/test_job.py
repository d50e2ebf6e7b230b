"""The job file is complete, and holds no secret."""

import stat
from pathlib import Path

import pytest

from airflow_provider_dm.engine.config.job import JobSpec
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Tls
from airflow_provider_dm.engine.mysql.errors import InvalidLocation
from airflow_provider_dm.launch.job import Job, checked_until, local_holder, new_run_id
from airflow_provider_dm.launch.secrets import PassedSecrets, secret_name

from .conftest import META_PASSWORD, SOURCE_PASSWORD, TARGET_PASSWORD


def test_the_app_gets_back_what_was_described_and_the_file_is_private(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "job.json"
    for name, secret in job.secrets.by_name.items():
        monkeypatch.setenv(name, secret)
    job.spec.write(path)

    read = JobSpec.read(path)

    assert read == job.spec
    assert read.sources[0].endpoint.resolve().password.reveal() == SOURCE_PASSWORD
    assert read.target.resolve().password.reveal() == TARGET_PASSWORD
    assert META_PASSWORD in read.meta_url.resolve("the metadata DB").reveal()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for password in (SOURCE_PASSWORD, TARGET_PASSWORD, META_PASSWORD):
        assert password not in path.read_text()
        assert password not in repr(job)


def test_tls_files_are_found_from_another_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An app runs in a directory of its own, and the precheck, in the launcher, has found `ca.pem`."""
    monkeypatch.chdir(tmp_path)
    spec = PassedSecrets().endpoint("TARGET", Endpoint("target", "h", 1, "u", tls=Tls(ca="ca.pem", cert="/c.pem")))

    assert spec.resolve().tls == Tls(ca=str(tmp_path / "ca.pem"), cert="/c.pem", key=None)


def test_similar_names_get_separate_variables() -> None:
    names = [secret_name("SOURCE", name) for name in ("a-b", "a_b", "target")] + [secret_name("TARGET", "target")]

    assert len(set(names)) == 4


def test_log_lines_show_no_password(job: Job) -> None:
    line = f"login with {SOURCE_PASSWORD}; url user:{META_PASSWORD}@host"

    assert job.secrets.masked(line) == "login with ******; url user:******@host"


@pytest.mark.parametrize("until", ["caught-up", "forever", "mysql-bin.000003:1234"])
def test_until_is_a_word_or_a_location(until: str) -> None:
    assert checked_until(until) == until


def test_until_anything_else_is_refused() -> None:
    with pytest.raises(InvalidLocation, match="FILE:POSITION"):
        checked_until("tomorrow")


def test_a_rerun_has_the_same_identity_and_another_attempt(tmp_path: Path) -> None:
    first, second = local_holder("shop", tmp_path), local_holder("shop", tmp_path)

    assert first.identity == second.identity
    assert first.attempt != second.attempt
    assert local_holder("other", tmp_path).identity != first.identity


def test_a_run_id_is_short_for_any_task_name() -> None:
    assert len(new_run_id("x" * 128, "incremental_sync")) <= 64
