"""Files of ``import … skip_broken`` that the configuration that serves is without: log, metric and events say which, and why."""

from __future__ import annotations

from fastdns.corefile.errors import CorefileError
from fastdns.telemetry import events
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric

__all__ = ["FILES_MAX", "report"]

log = Log()

#: Files that have a series, a line and an event of their own; the others are counted together, under the name "others".
FILES_MAX = 50

LEFT_OUT = Metric("fastdns_corefile_left_out", "Broken files of an import with skip_broken, which are not served.", "gauge", ("file",))


def report(left_out: dict[str, CorefileError]) -> None:
    """Tell of the files by path, with the error of each, in place of those that the former configuration was without."""
    LEFT_OUT.forget()
    for path, error in sorted(left_out.items())[:FILES_MAX]:
        log.error(f"Left out {path}: {error}")
        LEFT_OUT.set((path,), 1)
        events.note("file_left_out", path, str(error))
    others = len(left_out) - FILES_MAX
    if others > 0:
        log.error(f"Left out {others} further files")
        LEFT_OUT.set(("others",), others)
