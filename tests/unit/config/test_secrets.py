"""Passwords: usable, and shown nowhere."""

import base64
import json
import os
import pickle
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from airflow_provider_dm.engine.config import secrets
from airflow_provider_dm.engine.config.database_config import DatabaseConfig, TargetDatabase
from airflow_provider_dm.engine.config.errors import ConfigError, SecretMissing
from airflow_provider_dm.engine.config.job import EndpointSpec, JobSpec, SecretRef, SourceSpec
from airflow_provider_dm.engine.config.source import SourceConfig
from airflow_provider_dm.engine.config.task import TaskConfig
from airflow_provider_dm.engine.config.yaml_file import parse_source, parse_task
from airflow_provider_dm.engine.errors import InvalidInput
from airflow_provider_dm.engine.processes import Holder

CANARY = "hunter2-canary"


def a_task() -> TaskConfig:
    return parse_task(
        "name: t\nmysql-instances: [{source-id: a, loader-config-name: g}]\n"
        f"target-database: {{host: h, user: u, password: '{CANARY}', security: {{ssl-key-base64: {CANARY}}}}}\n"
        f"loaders: {{g: {{dir: 's3://b/d?secret-access-key={CANARY}'}}}}\n"
    )


def a_source() -> SourceConfig:
    return parse_source(f"source-id: a\nfrom: {{host: h, user: u, password: '{CANARY}'}}\n")


@pytest.mark.parametrize("config", [a_task(), a_source()], ids=["task", "source"])
def test_a_password_is_in_no_form_of_the_configuration(config: TaskConfig | SourceConfig) -> None:
    forms = [repr(config), str(config), str(config.model_dump()), config.model_dump_json(), f"{config!r:>9}"]
    forms += [str(config.model_dump(by_alias=True)), str(config.model_dump(mode="json"))]
    assert [form for form in forms if CANARY in form] == []


@pytest.mark.parametrize("config", [a_task(), a_source()], ids=["task", "source"])
def test_without_secrets_the_pickle_has_none(config: TaskConfig | SourceConfig) -> None:
    assert CANARY.encode() in pickle.dumps(config)
    assert CANARY.encode() not in pickle.dumps(config.without_secrets())


def test_the_password_reaches_the_endpoint() -> None:
    database = a_source().from_
    assert database is not None
    endpoint = database.endpoint("a")
    assert endpoint.password.reveal() == CANARY
    assert CANARY not in repr(endpoint)


def test_a_job_spec_carries_no_secret() -> None:
    endpoint = EndpointSpec(name="a", host="h", port=1, user="u", password=SecretRef(env="DM_X"))
    spec = JobSpec(
        run_id="r",
        app="verify",
        task=a_task(),
        sources=(SourceSpec(config=a_source(), endpoint=endpoint, relay_dir="/r"),),
        target=endpoint,
        meta_url=SecretRef(env="DM_META"),
        holder=Holder(identity="i", attempt="1", host="h"),
    )
    text = spec.model_dump_json()
    assert CANARY not in text
    assert JobSpec.model_validate_json(text).task == a_task().without_secrets()
    assert json.loads(text)["task"]["target_database"]["host"] == "h"


@pytest.mark.parametrize(
    "text",
    [
        f"password: {{{CANARY}: 1}}",
        f"password: [{CANARY}]",
        f"password: *{CANARY}",
        f"password: !{CANARY} x",
        f"password: !{CANARY}! x",
        f"password: '{CANARY}' {CANARY}",
        f"password: {CANARY}: {CANARY}",
        f"password: @{CANARY}",
        f"password: %{CANARY}",
        f"password: \"{CANARY}",
        f"password: {CANARY}\n  password: {CANARY}",
        f"password: {CANARY}\n  password-env: X",
        f"password: {CANARY}\n  port: x",
        f"security: {{ssl-key-base64: [{CANARY}]}}",
        f"security: {CANARY}",
    ],
)  # fmt: skip
def test_a_password_is_in_no_message_about_a_broken_file(text: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_source(f"source-id: a\nfrom:\n  host: h\n  {text}\n")
    assert CANARY not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_an_address_with_a_password_instead_of_a_login_is_in_no_message() -> None:
    with pytest.raises(
        ConfigError, match='"from" in the source must be a mapping of keys to values, not text'
    ) as refusal:
        parse_source(f"source-id: a\nfrom: mysql://dm:{CANARY}@h\n")
    assert CANARY not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_a_password_is_in_no_validation_error_of_a_model() -> None:
    with pytest.raises(ValueError, match="validation error") as refusal:
        TargetDatabase.model_validate({"host": "", "password": [CANARY], "x": CANARY})
    assert CANARY not in str(refusal.value)


def test_a_password_by_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_received", {})
    monkeypatch.setenv("DM_PASSWORD", CANARY)
    (tmp_path / "secret").write_text(f"{CANARY}\n")
    by_file = DatabaseConfig(host="h", password_file=str(tmp_path / "secret"))
    by_env = DatabaseConfig(host="h", password_env="DM_PASSWORD")
    assert by_file.secret().reveal() == CANARY
    assert by_env.secret().reveal() == CANARY
    assert DatabaseConfig.model_validate_json(by_env.model_dump_json()) == by_env


def test_a_reference_to_a_missing_rule_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_received", {})
    with pytest.raises(InvalidInput, match="the environment variable DM_PASSWORD: it is not set"):
        DatabaseConfig(host="h", password_env="DM_PASSWORD").secret()
    with pytest.raises(InvalidInput, match="/nowhere: FileNotFoundError"):
        DatabaseConfig(host="h", password_file="/nowhere").secret()


def dms_form(password: str, key: str) -> str:
    """Encrypt as `dmctl encrypt` does it: each block depends on the one before it."""
    plain, hidden = password.encode(), b""
    block = b"vector of 16 by."
    for start in range(0, len(plain), 16):
        stream = Cipher(algorithms.AES(bytes.fromhex(key)), modes.ECB()).encryptor().update(block)
        block = bytes(one ^ other for one, other in zip(plain[start : start + 16], stream, strict=False))
        hidden += block
    return base64.b64encode(b"vector of 16 by.@" + hidden).decode()


def secret_of(password: str, environ: dict[str, str]) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "environ", environ)
        return DatabaseConfig.model_validate({"host": "h", "password": password}).secret().reveal()


def test_dms_encrypted_form_is_read_with_the_key_that_it_was_written_with(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    path.write_text("0f" * 32 + "\n")
    own = {"DM_SECRET_KEY_FILE": str(path)}
    assert secret_of("/Q7B9DizNLLTTfiZHv9WoEAKamfpIUs=", {}) == "123456"  # of DM's own task files
    for password in ("hüter2 ÄÖ", "forty characters, in three blocks of it."):
        assert secret_of(dms_form(password, "0f" * 32), own) == password
    for password, environ, why in (
        (dms_form("a long password", "0f" * 32), {}, "name the file of that key in DM_SECRET_KEY_FILE"),
        (dms_form("x", "0f" * 32), {"DM_SECRET_KEY_FILE": "/nowhere"}, r"/nowhere.*FileNotFoundError"),
    ):
        with pytest.raises(InvalidInput, match=why):
            secret_of(password, environ)
    path.write_text("no key")
    with pytest.raises(InvalidInput, match="64 hexadecimal digits"):
        secret_of(dms_form("x", "0f" * 32), own)


@pytest.mark.parametrize("plain", ["hunter2", "", "YWJjZA==", "a" * 40, "ÄÖ€"])
def test_a_plain_password_is_not_decrypted(plain: str) -> None:
    assert TargetDatabase.model_validate({"host": "h", "password": plain}).secret().reveal() == plain


def test_a_process_receives_its_secrets_once_by_a_pipe_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "_received", {})
    given = {"DM_SECRET_X": CANARY, "LONG": "x" * 100_000}
    pipe = secrets.filled_pipe(given)
    assert secrets.receive(pipe) == given
    assert secrets.receive(pipe) == {}
    os.close(pipe)

    kept = secrets.named_pipe(tmp_path, given)
    assert (tmp_path / secrets.PIPE).stat().st_mode & 0o077 == 0
    assert secrets.receive(tmp_path / secrets.PIPE) == given
    assert list(tmp_path.iterdir()) == []
    assert secrets.receive(tmp_path / secrets.PIPE) == {}
    os.close(kept)


def test_a_secret_that_was_received_is_not_in_the_environment() -> None:
    with pytest.raises(SecretMissing, match="Launch the app through an operator or dmctl"):
        SecretRef(env="DM_SECRET_OF_THIS_TEST").resolve("a")
    secrets.keep({"DM_SECRET_OF_THIS_TEST": CANARY})
    assert SecretRef(env="DM_SECRET_OF_THIS_TEST").resolve("a").reveal() == CANARY
    assert "DM_SECRET_OF_THIS_TEST" not in os.environ
