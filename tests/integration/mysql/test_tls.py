"""TLS with real servers: trusted servers, and the errors for others. No password is sent to an untrusted server."""

import datetime as dt
import ipaddress
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from airflow_provider_dm.engine.errors import Reaction
from airflow_provider_dm.engine.meta.database import Database
from airflow_provider_dm.engine.meta.url import parse_url
from airflow_provider_dm.engine.mysql.connection import connected, query
from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Secret, Tls
from airflow_provider_dm.engine.mysql.errors import AccessDenied, ServerUnreachable, TlsRefused
from airflow_provider_dm.engine.mysql.guarded import GuardedConnection
from testbed import Server, ServerSpec
from tests.conftest import StartServers

NOW = dt.datetime.now(dt.UTC)
A_DAY = dt.timedelta(days=1)


def endpoint(server: Server, ca: Path | str | None, host: str = "127.0.0.1") -> Endpoint:
    return Endpoint("one", host, server.port, "root", Secret(""), Tls(ca=str(ca) if ca else None))


def cipher(target: Endpoint) -> str:
    with connected(target) as connection:
        ((_, name),) = query(connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        return str(name.decode())


def refused(target: Endpoint) -> TlsRefused:
    with pytest.raises(TlsRefused) as caught, connected(target):
        pass
    assert caught.value.reaction is Reaction.STOP
    assert "port" not in caught.value.message()
    return caught.value


class Authority:
    """A CA that signs certificates for tests, and what else a server needs of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "An authority")])
        self.ca = folder / "ca.pem"
        certificate = self._builder(self.name, self.key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.ca.write_bytes(_pem(certificate.sign(self.key, hashes.SHA256())))

    def options(self, common_name: str, *names: str, expired: bool = False) -> tuple[str, ...]:
        """Options of a server with a certificate for these names."""
        certificate, private = self.signed("server", common_name, *names, expired=expired)
        return (f"--ssl-ca={self.ca}", f"--ssl-cert={certificate}", f"--ssl-key={private}")

    def signed(self, file: str, common_name: str, *names: str, expired: bool = False) -> tuple[Path, Path]:
        """A certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = self._builder(subject, key.public_key(), expired=expired)
        if names:
            found = [_general(name) for name in names]
            builder = builder.add_extension(x509.SubjectAlternativeName(found), critical=False)
        certificate, private = self.folder / f"{file}.pem", self.folder / f"{file}-key.pem"
        certificate.write_bytes(_pem(builder.sign(self.key, hashes.SHA256())))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return certificate, private

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, expired: bool = False
    ) -> x509.CertificateBuilder:
        end = NOW - A_DAY if expired else NOW + A_DAY
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(end - 9 * A_DAY)
            .not_valid_after(end)
        )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_the_certificates_that_mysql_makes_itself_are_trusted_by_their_ca(mysql_source: Server) -> None:
    """They name no host; DM and MySQL's own client (VERIFY_CA) take them likewise."""
    for host in ("127.0.0.1", "localhost"):
        assert cipher(endpoint(mysql_source, mysql_source.datadir / "ca.pem", host))


def test_a_certificate_of_another_ca_is_not_trusted(mysql_source: Server, authority: Authority) -> None:
    error = refused(endpoint(mysql_source, authority.ca))

    assert "not signed by the CA in" in error.reason
    assert str(authority.ca) in error.reason
    assert "ca.pem in its data directory" in error.workaround()


def test_a_certificate_that_mariadb_makes_itself_is_unsigned(mariadb11_source: Server, authority: Authority) -> None:
    error = refused(endpoint(mariadb11_source, authority.ca))

    assert "not signed by the CA in" in error.reason
    assert "MariaDB generates a new certificate at each start" in error.workaround()


def test_a_server_that_offers_no_tls(mariadb_source: Server, authority: Authority) -> None:
    error = refused(endpoint(mariadb_source, authority.ca))

    assert error.reason == "the server offers none"
    assert "ssl_cert" in error.workaround()


@pytest.mark.parametrize("flavour", ["mariadb", "mysql"])
def test_a_certificate_without_the_name_of_the_server_is_refused(
    flavour: str, authority: Authority, start_own: StartServers
) -> None:
    (server,) = start_own(ServerSpec("own", flavour, authority.options("x y", "localhost", "db.example.org")))  # type: ignore[arg-type]

    assert cipher(endpoint(server, authority.ca, "localhost"))
    error = refused(endpoint(server, authority.ca, "127.0.0.1"))
    assert error.reason == "its certificate is for localhost, db.example.org, not for 127.0.0.1"
    assert "Connect by a name that the certificate has" in error.workaround()

    server.sql("CREATE USER x509@'%' REQUIRE X509")
    account, ca = replace(endpoint(server, None, "localhost"), user="x509"), str(authority.ca)
    assert cipher(replace(account, tls=Tls(ca, *map(str, authority.signed("ours", "ours")))))
    with pytest.raises(AccessDenied, match="ssl-cert"), connected(replace(account, tls=Tls(ca))):
        pass
    expired = replace(account, tls=Tls(ca, *map(str, authority.signed("old", "old", expired=True))))
    assert "EXPIRED" in _settled(lambda: refused(expired)).reason

    url = f"mysql://x509@localhost:{server.port}/information_schema?ssl_ca={ca}&ssl_cert={{0}}/ours.pem&ssl_key={{0}}/ours-key.pem"
    metadata = Database(parse_url(url.format(authority.folder)))
    (row,) = metadata.read(lambda tx: tx.exec_driver_sql("SHOW SESSION STATUS LIKE 'Ssl_cipher'").all())
    metadata.close()
    assert row[1]


def _settled(look: Callable[[], TlsRefused]) -> TlsRefused:
    """Return the error of an attempt in which the server's answer arrives before the client closes the connection."""
    for _ in range(200):
        with suppress(ServerUnreachable):
            return look()
    return look()


def test_a_common_name_that_is_a_host_is_compared(authority: Authority, start_own: StartServers) -> None:
    (server,) = start_own(ServerSpec("own", "mariadb", authority.options("localhost")))

    assert cipher(endpoint(server, authority.ca, "localhost"))
    assert "is for localhost, not for 127.0.0.1" in refused(endpoint(server, authority.ca, "127.0.0.1")).reason


def test_an_expired_certificate(authority: Authority, start_own: StartServers) -> None:
    (server,) = start_own(ServerSpec("own", "mariadb", authority.options("x y", "127.0.0.1", expired=True)))

    error = refused(endpoint(server, authority.ca))
    assert "not valid now" in error.reason
    assert "Renew" in error.workaround()


def test_an_unreachable_server_is_no_error_of_tls(mysql_source: Server) -> None:
    there = endpoint(mysql_source, mysql_source.datadir / "ca.pem")

    with pytest.raises(ServerUnreachable, match="Check host, port"), connected(replace(there, port=1)):
        pass


def test_a_login_after_the_servers_time_out_is_retried(
    mysql_source: Server, start_own: StartServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MySQL sends an unencrypted error to a late client, for example a frozen process, and closes the connection."""
    (server,) = start_own(ServerSpec("own", "mysql", ("--connect-timeout=2",)))
    step = "_request_authentication"
    in_time = getattr(GuardedConnection, step)

    def late(connection: Any) -> None:
        select.select([connection._sock], [], [])
        in_time(connection)

    monkeypatch.setattr(GuardedConnection, step, late)
    with pytest.raises(ServerUnreachable), connected(endpoint(server, None)):
        pass


def test_an_unencrypted_answer_during_the_tls_handshake_is_no_tls_error(mysql_source: Server) -> None:
    """The same through a proxy, which has not closed yet."""
    greeting = socket.create_connection((mysql_source.host, mysql_source.port)).recv(4096)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            client, _ = listener.accept()
            with client:
                client.sendall(greeting)
                client.recv(4096)
                client.sendall(b"\x1a\0\0\2\xff\x87\x04#08S01Got timeout reading")
                with suppress(ConnectionResetError):  # it may leave before it has read all
                    client.recv(1)

        giving_up = threading.Thread(target=answer)
        giving_up.start()
        nowhere = replace(endpoint(mysql_source, None), port=listener.getsockname()[1])
        with pytest.raises(ServerUnreachable), connected(nowhere):
            pass
        giving_up.join()
