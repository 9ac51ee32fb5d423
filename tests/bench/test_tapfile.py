"""Workloads out of dnstap files."""

from __future__ import annotations

from pathlib import Path

import dns.message
import pytest

from fastdns.bench.workload import WorkloadError
from fastdns.bench.workloads.recorded import read_recorded
from fastdns.plugins.dnstap import frames
from fastdns.plugins.dnstap._sender import message

LOCAL = bytes((127, 0, 0, 1))
START = frames.control(frames.START, frames.CONTENT_TYPE)
STOP = frames.control(frames.STOP)


def frame(name: str, answered: int = 0, octets: bytes | None = None) -> bytes:
    asked = dns.message.make_query(name, "A").to_wire() if octets is None else octets
    return message(b"us", b"1", b"", True, LOCAL, 1, LOCAL, 53, 10**18, answered, asked)


def read(tmp_path: Path, octets: bytes) -> list[str]:
    (tmp_path / "tap").write_bytes(octets)
    return [question.name for question in read_recorded(tmp_path / "tap")]


def test_queries_of_clients(tmp_path: Path) -> None:
    """Responses and messages without octets are passed over; a file that breaks off is read as far as it goes."""
    whole = START + frame("a.test") + frame("x.test", 10**18 + 1) + frame("", octets=b"") + frame("b.test") + STOP
    assert read(tmp_path, whole) == ["a.test.", "b.test."]
    assert read(tmp_path, whole[: len(whole) - len(STOP) - 5]) == ["a.test."]


@pytest.mark.parametrize(
    ("octets", "problem"),
    [
        (START + STOP, "no queries of clients in 0 messages"),
        (frames.control(frames.START, b"protobuf:other"), "the frames are not of dnstap"),
        (START + (1 << 24).to_bytes(4, "big"), "a frame is too long"),
        (START + b"\0\0\0\2\x72\x7f", "malformed protobuf"),
        (START + b"\0\0\0\1\xff", "malformed protobuf"),
    ],
)
def test_what_is_no_file_of_dnstap(tmp_path: Path, octets: bytes, problem: str) -> None:
    with pytest.raises(WorkloadError, match=problem):
        read(tmp_path, octets)
