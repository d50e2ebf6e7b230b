"""The metrics of an app for Prometheus, in the text format, with DM's names if they exist, as of the last heartbeat.

    task file   metrics-addr: 127.0.0.1:8262        GET /metrics

The numbers are counted by other modules and are few, so no client library is used. If the address is in use, a warning
is logged.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from airflow_provider_dm.engine.config.listening import listen_address
from airflow_provider_dm.engine.meta.records import Stage
from airflow_provider_dm.engine.mysql.errors import InvalidLocation
from airflow_provider_dm.engine.mysql.location import BinlogFile, Location

log = logging.getLogger(__name__)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
STATES: Final = {Stage.NEW: 1, Stage.RUNNING: 2, Stage.PAUSED: 3, Stage.STOPPED: 4, Stage.FINISHED: 5}
"""DM's numbers of stages."""


@dataclass(frozen=True)
class Metric:
    """A metric. `name`: DM's name if DM has the metric."""

    name: str
    kind: str
    help: str


TASK_STATE: Final = Metric("dm_worker_task_state", "gauge", "Stage: 1 New, 2 Running, 3 Paused, 4 Stopped, 5 Finished.")
LAG: Final = Metric(
    "dm_syncer_replication_lag_gauge", "gauge", "Age in seconds of the oldest commit that may not be applied."
)
REMAINING: Final = Metric(
    "dm_syncer_remaining_time", "gauge", "Seconds to the goal, or to the source's end, at the current speed."
)
FILE: Final = Metric(
    "dm_syncer_binlog_file", "gauge", "Number of the binlog file of the source (master) and of the sync (syncer)."
)
POSITION: Final = Metric("dm_syncer_binlog_pos", "gauge", "Position in that file.")
TRANSACTIONS: Final = Metric("dm_syncer_finished_transaction_total", "counter", "Transactions of the log applied.")
JOBS: Final = Metric("dm_syncer_finished_jobs_total", "counter", "Row changes and DDL statements applied.")
WRITTEN: Final = Metric(
    "dm_syncer_written_rows_total", "counter", "Rows written or deleted: changes of the same row are folded."
)
LOG_BYTES: Final = Metric("dm_syncer_log_bytes_total", "counter", "Bytes of the log applied.")
SYNC_FAILURES: Final = Metric(
    "dm_syncer_exit_with_error_count", "counter", "Errors after which a sync resumed automatically."
)
CONTESTED: Final = Metric("dm_syncer_contested_rows", "gauge", "Rows that wait for their places in merged tables.")
UNSYNCED: Final = Metric(
    "dm_syncer_unsynced_table_number", "gauge", "Shards that have not executed a DDL after which rows are held back."
)
RESOLVING: Final = Metric(
    "dm_syncer_shard_lock_resolving", "gauge", "1 if all shards of the source have executed a DDL that is not resolved."
)
HELD_BACK: Final = Metric(
    "dm_syncer_held_back_seconds", "gauge", "Seconds since the first DDL or contested row that holds rows back."
)
HELD_BYTES: Final = Metric("dm_syncer_held_back_log_bytes", "gauge", "Bytes of the log kept for rows held back.")
LOAD: Final = Metric("dm_loader_progress", "gauge", "Share of the chunks that is copied, from 0 to 1.")
LOADED: Final = Metric("dm_loader_rows_total", "counter", "Rows copied.")

MetricValue = tuple[Metric, Mapping[str, str], float | None]
Json = Mapping[str, Any]


def exposition(task: str, host: str, stages: Mapping[str, Stage], progress: Json) -> str:
    """Return the page. `progress`: the progress of each source; unknown numbers are left out."""
    found: dict[Metric, list[str]] = {}
    for source, stage in stages.items():
        own = {"task": task, "source_id": source}
        values: list[MetricValue] = [(TASK_STATE, {**own, "worker": host}, STATES[stage])]
        shown = progress.get(source)
        if isinstance(shown, Mapping):
            values += _load(own, shown) if shown.get("unit") == "load" else _sync(own, host, shown)
        for metric, labels, value in values:
            if value is not None:
                found.setdefault(metric, []).append(f"{metric.name}{{{_labels(labels)}}} {_number(value)}")
    pages = [[f"# HELP {one.name} {one.help}", f"# TYPE {one.name} {one.kind}", *lines] for one, lines in found.items()]
    return "".join(f"{line}\n" for page in pages for line in page)


def _sync(own: Mapping[str, str], host: str, shown: Json) -> Iterator[MetricValue]:
    yield LAG, {**own, "worker": host}, shown.get("lag_seconds")
    yield REMAINING, own, shown.get("seconds_left")
    for node, key in (("master", "master"), ("syncer", "location")):
        location = _location(shown.get(key))
        if location is not None:
            yield FILE, {"node": node, **own}, BinlogFile.parse(location.file).number
            yield POSITION, {"node": node, **own}, location.position
    yield TRANSACTIONS, own, shown.get("transactions")
    yield JOBS, {"type": "dml", **own}, shown.get("changes_applied")
    yield JOBS, {"type": "ddl", **own}, shown.get("ddl_applied")
    yield WRITTEN, own, shown.get("rows_written")
    yield LOG_BYTES, own, shown.get("bytes")
    yield SYNC_FAILURES, {**own, "resumable_err": "true"}, shown.get("failures")
    yield CONTESTED, own, shown.get("contested_rows")
    groups = shown.get("unresolved_groups")
    if groups is not None:
        for group in groups:
            yield UNSYNCED, {"table": group["target"], **own}, len(group["unsynced"])
        yield RESOLVING, own, float(any(not group["unsynced"] for group in groups))
        held_back = groups or shown.get("contested_rows")
        yield HELD_BACK, own, shown.get("held_back_seconds") if held_back else 0.0
        yield HELD_BYTES, own, shown.get("held_back_bytes")


def _load(own: Mapping[str, str], shown: Json) -> Iterator[MetricValue]:
    if shown.get("chunks"):
        yield LOAD, own, shown["chunks_done"] / shown["chunks"]
    yield LOADED, own, shown.get("rows")


def _location(value: object) -> Location | None:
    try:
        return Location.parse(value) if isinstance(value, str) and value else None
    except InvalidLocation:
        return None


def _number(value: float) -> str:
    """Return a number with all of its digits.

    >>> _number(9_000_000_000), _number(3.0), _number(0.25)
    ('9000000000', '3', '0.25')
    """
    return str(int(value)) if value == int(value) else repr(value)


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    r"""Return a label's value.

    >>> print(_escaped('a"b\\c'))
    a\"b\\c
    """
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def serve(address: str, page: Callable[[], str]) -> ThreadingHTTPServer | None:
    """Serve `page()` at HOST:PORT, in threads that end with the process. None: the address cannot be used.

    An empty host means the loopback address of this machine.
    """
    family, place = listen_address(address)

    class Server(ThreadingHTTPServer):
        address_family = family
        daemon_threads = True

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer with the page at /metrics, else with an error."""
            if self.path.split("?")[0] != "/metrics":
                self.send_error(404)
                return
            body = page().encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            """Log nothing for a scrape."""

    try:
        server = Server(place, Handler)
    except OSError as error:
        log.warning("metrics cannot be served at %s: %s", address, error)
        return None
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    log.info("metrics are served at http://%s/metrics", address)
    return server
