"""TLS files that cannot be used are an error that names them, before any connection is tried."""

from pathlib import Path

import pytest

from airflow_provider_dm.engine.mysql.connection import connect
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret, Tls
from airflow_provider_dm.engine.mysql.tls import TlsFilesUnusable


@pytest.mark.parametrize("role", ["ca", "cert"])
@pytest.mark.parametrize("exists", [True, False])
def test_a_file_that_is_no_certificate_or_not_there(tmp_path: Path, role: str, exists: bool) -> None:
    path = tmp_path / "wrong.pem"
    if exists:
        path.write_text("no certificate")
    tls = Tls(ca=str(path) if role == "ca" else None, cert=str(path) if role == "cert" else None, key=None)
    endpoint = Endpoint("replica", "127.0.0.1", 1, "dm", Secret("c4nary"), tls, ())

    with pytest.raises(TlsFilesUnusable, match=r"wrong\.pem") as caught:
        connect(endpoint)

    assert "c4nary" not in str(caught.value)
