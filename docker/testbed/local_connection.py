"""Connections to servers of this machine, without what takes PyMySQL longest.

Where TLS is taken if it is offered, PyMySQL reads the certificates of all CAs of this machine, 15 ms each time, and
trusts any server all the same. Tests connect thousands of times.
"""

import ssl
from functools import lru_cache
from typing import Any

import pymysql


class LocalConnection(pymysql.connections.Connection):
    """PyMySQL's connection, with one TLS context for all that are given none."""

    def _create_ssl_ctx(self, configured: Any) -> ssl.SSLContext:
        return configured if isinstance(configured, ssl.SSLContext) else _trusting()


@lru_cache
def _trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
