"""Reports what was cut off an object because it is beyond a limit (see `Cut` in objects.pxd). The rest of the object stands.

A namespace has ten lines of the log a minute, so that one that is full of such objects hides none of the others. The metric counts all.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from fastdns.plugins.kubernetes.decode.refusals import describe, printable
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric

__all__ = ["LEFT_OUT", "LINES", "report_cuts"]

#: Lines of the log in a minute about the objects of a namespace.
LINES = 10
MINUTE = 60.0

LEFT_OUT = Metric("fastdns_kubernetes_object_records_left_out_total", "Counter of records or names from objects that are left out.", "counter", ("plugin",))

#: By `Kind`.
KINDS = ("namespace", "service", "EndpointSlice", "pod", "ServiceImport", "EndpointSlice")
#: By `Cut`: the part that is left out, and its limits.
PARTS = (
    ("ports", "at most 4096, with 65535 octets of names, each with a number below 65536 and a name of 63 octets"),
    ("cluster IPs", "at most 256"),
    ("external addresses", "at most 4096, with 65535 octets of text beside those of the ports"),
    ("external names", "at most 254 octets"),
    ("endpoint addresses", "at most 10000"),
    ("texts of endpoints", "at most 63 octets of a host name or zone, 253 of a node and 16384 of hints"),
    ("labels", "at most 512, with 32768 octets; now none counts"),
)

log = Log("plugin/kubernetes")


class Lines:
    """The lines of the last minute."""

    def __init__(self) -> None:
        self.begun = 0.0
        #: By namespace, the lines that were written.
        self.written: dict[str, set[str]] = {}
        #: By namespace, how many were not.
        self.hidden: dict[str, int] = {}

    def say(self, namespace: str, text: str) -> None:
        """Logs a line, unless it was logged in this minute, or ten others of the namespace were."""
        now = time.monotonic()
        if now - self.begun >= MINUTE:
            for name, count in self.hidden.items():
                log.warning(f"namespace {printable(name, 63)}: {count} more lines about objects that are cut")
            self.written.clear()
            self.hidden.clear()
            self.begun = now
        written = self.written.setdefault(namespace, set())
        if text in written:
            return
        if len(written) < LINES:
            written.add(text)
            log.warning(text)
        else:
            self.hidden[namespace] = self.hidden.get(namespace, 0) + 1


lines = Lines()


def report_cuts(kind: int, namespace: str, name: str, counts: Sequence[int]) -> None:
    """An object stands without some of its parts: ``counts`` of each `Cut`."""
    LEFT_OUT.add(("kubernetes",), sum(counts))
    said = "; ".join(f"{count} {part} ({limit})" for count, (part, limit) in zip(counts, PARTS, strict=True) if count)
    if said:
        lines.say(namespace, f"{KINDS[kind]} {describe(namespace, name)}: skips {said}")
