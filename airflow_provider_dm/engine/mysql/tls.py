"""TLS to a server: what is verified, and the errors.

    ssl-ca given     the certificate must be signed by that CA and be valid now; if it names hosts, one of them must be
                     the host that we connect to
    ssl-ca missing   the connection is encrypted, but the server is not verified

DM verifies the CA only. That is right for the certificates that MySQL generates: each server has its own CA, and they
name no host. For a CA that signs many certificates it would be wrong: any customer of a cloud provider could answer
with a valid one. So the host is checked if the certificate names one. All checks precede the password.
"""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
import ssl
from collections.abc import Mapping
from typing import Any, Final

import pymysql
from pymysql.constants import CR

from airflow_provider_dm.engine.mysql.endpoint import Endpoint, Tls
from airflow_provider_dm.engine.mysql.errors import TlsRefused


def tls_context(endpoint: Endpoint) -> ssl.SSLContext | None:
    """Return the context for a connection; None if no TLS is configured. Raises TlsRefused.

    Connecting with it raises TlsRefused if the certificate is for another host.
    """
    if endpoint.tls is None:
        return None
    try:
        return _HostCheckingContext.of(endpoint.tls, str(endpoint))
    except OSError as error:  # ssl.SSLError is one
        files = tuple(filter(None, (endpoint.tls.ca, endpoint.tls.cert, endpoint.tls.key)))
        raise TlsRefused(
            str(endpoint), f"it cannot be set up from {', '.join(files)}: {error.strerror or error}", _NO_FILES
        ) from error


def tls_refused(endpoint: Endpoint, error: pymysql.err.MySQLError) -> TlsRefused | None:
    """Return the TLS error that prevented a connection; None if the cause is not TLS."""
    cause = getattr(error, "original_exception", None)
    if error.args and error.args[0] == CR.CR_SSL_CONNECTION_ERROR:
        return TlsRefused(str(endpoint), "the server offers none", _NOT_OFFERED)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return TlsRefused(str(endpoint), *_untrusted(cause, endpoint.tls))
    if isinstance(cause, ssl.SSLError) and not _is_lost(cause):
        return TlsRefused(str(endpoint), f"the handshake fails ({cause.reason or cause})", _NO_HANDSHAKE)
    # In TLS 1.3 a server checks the client's certificate after our side of the handshake; the next read then fails.
    late = error.__context__
    if isinstance(late, ssl.SSLError) and "ALERT" in (late.reason or ""):
        return TlsRefused(str(endpoint), f"it refuses our certificate ({late.reason})", _NO_HANDSHAKE)
    return None


def _is_lost(error: ssl.SSLError) -> bool:
    """Return True if the connection was lost, or closed by the server, before TLS began: then the cause is not TLS.

    MySQL answers in clear to a client that is late (connect_timeout), and closes. For that answer Python reports a
    wrong TLS version, or that the connection has ended.
    """
    gave_up = error.reason == "WRONG_VERSION_NUMBER" or error.errno == errno.ENOTCONN
    return gave_up or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)


_NO_FILES: Final = (
    "Give PEM files that this machine (a worker, an executor) can read at that path; a certificate needs its key, "
    "and a certificate file may contain both."
)
_NOT_OFFERED: Final = (
    "Configure a certificate on the server (ssl_cert, ssl_key), or remove `security` from its login: all traffic can "
    "then be read on the network."
)
_NO_HANDSHAKE: Final = (
    "Configure TLS 1.2 or 1.3 on the server (tls_version); an ssl-cert must be one that the server accepts: valid now, "
    "and signed by the CA in the server's ssl_ca."
)
_NOT_SIGNED: Final = (
    "Configure as ssl-ca the certificate of the CA that signed the server's. For generated certificates MySQL keeps it "
    "as ca.pem in its data directory. MariaDB generates a new certificate at each start if none is configured: "
    "configure one (ssl_cert, ssl_key)."
)
_DATES: Final = "Renew the server's certificate, or correct the clock of this machine or the server."
_NOT_YET_VALID, _EXPIRED = 9, 10
"""OpenSSL's X509_V_ERR_…; most other codes mean that the chain does not end at a known CA."""


def _untrusted(error: ssl.SSLCertVerificationError, tls: Tls | None) -> tuple[str, str]:
    ca = tls.ca if tls else None
    if error.verify_code in (_NOT_YET_VALID, _EXPIRED):
        return f"its certificate is not valid now ({error.verify_message})", _DATES
    return f"its certificate is not signed by the CA in {ca} ({error.verify_message})", _NOT_SIGNED


class _HostCheckingContext(ssl.SSLContext):
    """A client's context that verifies the chain, and the host if the certificate names one."""

    server: str

    @classmethod
    def of(cls, tls: Tls, server: str) -> _HostCheckingContext:
        """Build the context for these files. Raises OSError for files that cannot be used."""
        context = cls(ssl.PROTOCOL_TLS_CLIENT)
        context.server = server
        context.check_hostname = False  # it would require a name even if the certificate has none
        context.verify_mode = ssl.CERT_NONE if tls.ca is None else ssl.CERT_REQUIRED
        # Python 3.13 requires extensions that the certificates generated by MySQL do not have.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if tls.ca is not None:
            context.load_verify_locations(tls.ca)
        if tls.cert is not None:
            context.load_cert_chain(tls.cert, tls.key, password=_refuse_pass_phrase)
        return context

    def wrap_socket(self, sock: socket.socket, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        """Connect by TLS, and check the host's name. Raises TlsRefused, and OSError like its base."""
        wrapped = super().wrap_socket(sock, *arguments, **options)
        host, names = options.get("server_hostname") or "", named_hosts(wrapped.getpeercert() or {})
        if names and not any(is_host(name, host) for name in names):
            wrapped.close()
            reason = f"its certificate is for {', '.join(names)}, not for {host}"
            remedy = "Connect by a name that the certificate has, or give the server one that names this host."
            raise TlsRefused(self.server, reason, remedy)
        return wrapped


def _refuse_pass_phrase() -> str:
    """Raise OSError for a key with a pass phrase: OpenSSL would ask for it at the terminal, at each connection."""
    raise OSError(
        "the key is encrypted, and its pass phrase cannot be given; write it without one (openssl pkey -in … -out …)"
    )


_HOST_NAME: Final = re.compile(r"(?:\*\.)?[a-z0-9-]+(?:\.[a-z0-9-]+)*", re.IGNORECASE)


def named_hosts(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the hosts that a verified certificate names: its alternative names, or else its common name.

    >>> named_hosts({"subject": ((("commonName", "db.example.org"),),)})
    ('db.example.org',)
    >>> named_hosts({"subject": ((("commonName", "MySQL_Server_9.7.4_Auto_Generated_Server_Certificate"),),)})
    ()
    """
    alternative = tuple(str(name) for kind, name in certificate.get("subjectAltName", ()) if kind in _HOST_KINDS)
    subject = (pair for part in certificate.get("subject", ()) for pair in part)
    common = (str(value) for key, value in subject if key == "commonName")
    return alternative or tuple(filter(_HOST_NAME.fullmatch, common))


_HOST_KINDS: Final = ("DNS", "IP Address")


def is_host(name: str, host: str) -> bool:
    """Return True if a name in a certificate matches this host. `*` matches one label, at the beginning.

    >>> is_host("*.example.org", "DB.example.org"), is_host("*.example.org", "a.db.example.org")
    (True, False)
    """
    address, named = _address(host), _address(name)
    if address is not None or named is not None:
        return address == named
    name, host = _ascii(name), _ascii(host)
    first, _, domain = host.partition(".")
    return name == host or (bool(first) and "." in domain and name == f"*.{domain}")


def _ascii(name: str) -> str:
    try:
        return name.encode("idna").decode("ascii").lower().rstrip(".")
    except UnicodeError:
        return name.lower().rstrip(".")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip())
    except ValueError:
        return None
