"""Fuzz target: a capture (pcap, pcapng) or a file of dnstap is read up to where it is damaged, and the messages in it are compared and shown."""

from __future__ import annotations

import os

from fastdns.comparison.files import read_recorded
from fastdns.comparison.recorded import Recorded, RecordingError
from fastdns.comparison.tally import Tally, text


def read(octets: bytes) -> list[Recorded]:
    """The messages before the first damage."""
    descriptor = os.memfd_create("capture")
    messages: list[Recorded] = []
    try:
        os.write(descriptor, octets)
        messages.extend(read_recorded(f"/proc/self/fd/{descriptor}"))
    except RecordingError:
        pass
    finally:
        os.close(descriptor)
    return messages


def check(octets: bytes) -> str:
    messages = read(octets)
    if sum(len(message.octets) for message in messages) > len(octets):
        return "the messages are longer than their file"
    tally = Tally()
    for message in messages:
        tally.add(message.octets, message.client, message.octets, b"")
    text(tally.report(("a", "b")))
    return ""
