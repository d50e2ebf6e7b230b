import socket

import pytest

from airflow_provider_dm.engine.precheck.result import State
from airflow_provider_dm.launch.machine import check_metrics_port


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_metrics_address_that_another_process_listens_at(family: socket.AddressFamily, host: str) -> None:
    with socket.create_server((host, 0), family=family) as taken:
        port = taken.getsockname()[1]
        name = f"[{host}]" if family is socket.AF_INET6 else host
        state, what, _ = check_metrics_port(f"{name}:{port}")
        assert (state, "Address already in use" in what) == (State.FAIL, True), what
    assert check_metrics_port(f"{name}:{port}")[0] is State.OK
