"""The errors of connections and servers, and of texts that name a location in a log."""

from __future__ import annotations

from airflow_provider_dm.engine.errors import DmError, DownstreamError, Reaction, UpstreamError


class InvalidLocation(DmError):
    text: str

    code = "DM-1101"
    what = "{text!r} is not a binlog location."
    hint = "Write it as FILE:POSITION, for example mysql-bin.000003:1234."


class InvalidGtidSet(DmError):
    text: str
    flavour: str

    code = "DM-1110"
    what = "{text!r} is not a GTID set of {flavour}."
    hint = "Write it as 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7 (MySQL) or 0-1-42,1-7-9 (MariaDB)."


class ServerUnreachable(UpstreamError):
    server: str
    reason: str

    code = "DM-2001"
    reaction = Reaction.RETRY
    what = "cannot connect to {server}: {reason}."
    hint = "Check host, port and firewall, and that the server is running."


class AccessDenied(UpstreamError):
    server: str
    reason: str

    code = "DM-2002"
    what = "{server} denies access: {reason}."
    hint = (
        "Check user and password, and grant what the precheck lists. An account that REQUIREs X509 needs a client's "
        "certificate (ssl-cert, ssl-key) as well."
    )


class LocalFileRequested(UpstreamError):
    server: str

    code = "DM-2004"
    what = "{server} asks for a file of this machine (LOCAL INFILE); nothing was sent."
    hint = "A MySQL server does not ask for this: check which program answers at this address."


class TlsRefused(UpstreamError):
    """TLS cannot be set up from its files, is not available, or the server's certificate is not trusted."""

    server: str
    reason: str
    remedy: str

    code = "DM-2005"
    what = "no TLS with {server}: {reason}."
    hint = "{remedy}"


class SessionRefused(UpstreamError):
    server: str
    variable: str
    value: str
    reason: str

    code = "DM-2011"
    what = "{server} does not set the session variable {variable} to {value!r}: {reason}."
    hint = (
        "If `session` contains it, correct or remove it. Otherwise grant the account the privilege that the server "
        "names, or set the variable globally."
    )


class IncompleteResult(DmError):
    question: str
    rows: int
    counted: int | None

    code = "DM-2012"
    what = "a result is incomplete: {rows} of {counted} rows were received ({question})."
    hint = "Check whether a proxy limits results, for example by sql_select_limit in its settings."


class PacketTooLarge(DownstreamError):
    server: str
    statement: str
    """Its beginning, without values."""
    bytes: int
    limit: int

    code = "DM-2013"
    what = (
        "a statement of {bytes} bytes ({statement} …) exceeds the limit of {server} (max_allowed_packet is "
        "{limit}); it was not sent."
    )
    hint = "Raise max_allowed_packet on that server, also in its configuration file, then start the task again."


class BinlogDisabled(UpstreamError):
    server: str

    code = "DM-2110"
    what = "{server} writes no binlog."
    hint = "Set log_bin and binlog_format=ROW in its configuration and restart it."


class BinlogStatusDenied(UpstreamError):
    server: str
    privilege: str

    code = "DM-2111"
    what = "{server} does not show this account the end of its binlog: the privilege {privilege} is missing."
    hint = "Grant it, with the other privileges that the precheck lists (`replication_privilege` has the statement)."
