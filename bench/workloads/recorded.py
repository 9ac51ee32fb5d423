"""Queries out of captures and dnstap files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fastdns._wire import accept
from fastdns.bench.workload import Question, WorkloadError
from fastdns.comparison import files
from fastdns.comparison.recorded import RecordingError

__all__ = ["read_recorded"]

QUERY, IN = 0, 1


def read_recorded(path: str | Path, port: int = 53) -> Iterator[Question]:
    """The queries of a capture (pcap, pcapng: those to ``port``) or a dnstap file, in their order. WorkloadError when there is nothing to read."""
    messages = found = 0
    try:
        for message in files.read_recorded(path, port):
            messages += 1
            acceptance, _, name, qtype, qclass = (1, 0, None, 0, 0) if message.is_reply else accept(message.octets)
            if acceptance == QUERY and name is not None and qclass == IN:
                found += 1
                yield Question(name, qtype)
    except RecordingError as error:
        raise WorkloadError(str(error)) from error
    if not found:
        raise WorkloadError(f"{path}: no queries of clients in {messages} messages")
