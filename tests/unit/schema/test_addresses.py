"""UUID and INET bytes to text, and back by the standard library."""

import ipaddress
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_dm.engine.schema.addresses import inet4_text, inet6_text, uuid_text
from airflow_provider_dm.engine.schema.errors import MalformedValue

SPARSE = st.lists(st.sampled_from([0, 0, 0, 1, 0xFF]), min_size=16, max_size=16).map(bytes)


@given(st.binary(min_size=16, max_size=16) | SPARSE)
def test_uuids_and_ipv6_addresses_of_sixteen_bytes(data: bytes) -> None:
    dropped = data.rstrip(b"\0")
    assert uuid.UUID(uuid_text(dropped).decode()).bytes == data
    assert ipaddress.IPv6Address(inet6_text(dropped).decode()).packed == data


@given(st.binary(min_size=4, max_size=4))
def test_ipv4_addresses_of_four_bytes(data: bytes) -> None:
    assert ipaddress.IPv4Address(inet4_text(data.rstrip(b"\0")).decode()).packed == data


@pytest.mark.parametrize(
    ("address", "text"),
    [
        # As MariaDB writes them, which is not always as others do.
        ("0:0:0:0:0:0:0:0", "::"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("1:0:0:0:0:0:0:0", "1::"),
        ("1:0:2:3:4:5:6:7", "1::2:3:4:5:6:7"),
        ("1:0:0:2:0:0:0:3", "1:0:0:2::3"),
        ("1:0:0:2:0:0:3:4", "1::2:0:0:3:4"),
        ("0:0:0:0:0:0:102:304", "::1.2.3.4"),
        ("0:0:0:0:0:ffff:0:1", "::ffff:0.0.0.1"),
        ("0:0:0:0:0:fffe:102:304", "::fffe:102:304"),
        ("0:0:0:0:1:ffff:102:304", "::1:ffff:102:304"),
    ],
)
def test_the_shortest_form_is_mariadbs(address: str, text: str) -> None:
    assert inet6_text(b"".join(int(group, 16).to_bytes(2, "big") for group in address.split(":"))).decode() == text


def test_too_many_bytes_are_refused() -> None:
    for reader, size in ((uuid_text, 16), (inet6_text, 16), (inet4_text, 4)):
        with pytest.raises(MalformedValue):
            reader(bytes(size + 1))
