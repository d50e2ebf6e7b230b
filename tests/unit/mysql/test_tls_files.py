"""TLS files that cannot be used are an error that names them, before any connection is tried."""

import datetime as dt
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from airflow_provider_dm.engine.mysql.connection import connect
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret, Tls
from airflow_provider_dm.engine.mysql.errors import TlsRefused

NOW = dt.datetime.now(dt.UTC)


@pytest.mark.parametrize("role", ["ca", "cert"])
@pytest.mark.parametrize("exists", [True, False])
def test_a_missing_or_invalid_certificate_file_is_refused(tmp_path: Path, role: str, exists: bool) -> None:
    path = tmp_path / "wrong.pem"
    if exists:
        path.write_text("no certificate")
    tls = Tls(ca=str(path) if role == "ca" else None, cert=str(path) if role == "cert" else None, key=None)
    endpoint = Endpoint("replica", "127.0.0.1", 1, "dm", Secret("c4nary"), tls, ())

    with pytest.raises(TlsRefused, match=r"wrong\.pem") as caught:
        connect(endpoint)

    assert "c4nary" not in str(caught.value)


def test_no_pass_phrase_is_requested(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (tmp_path / "key.pem").write_bytes(key.private_bytes(*form, serialization.BestAvailableEncryption(b"c4nary")))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dm")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW, NOW + dt.timedelta(days=1))
    (tmp_path / "cert.pem").write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    tls = Tls(None, str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))

    with pytest.raises(TlsRefused, match="the key is encrypted"):
        connect(Endpoint("replica", "127.0.0.1", 1, "dm", Secret(""), tls))
