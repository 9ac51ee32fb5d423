"""reload: takes up a changed Corefile without a restart of the process."""

from __future__ import annotations

import random
import threading

from fastdns.corefile import CorefileError
from fastdns.server.canary import RULES, parse_rules
from fastdns.server.configuration import blocks_of, checksum
from fastdns.server.process import Process, RestartError
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.system.digest import hash_of
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric

__all__ = ["setup"]

TRAITS = Traits(answers=False, side_effects=True)

log = Log("plugin/reload")

SECOND = 10**9
INTERVAL = 30 * SECOND
JITTER = 15 * SECOND
INTERVAL_LEAST = 2 * SECOND
JITTER_LEAST = SECOND

FAILED = Metric("coredns_reload_failed_total", "Counter of the number of failed reload attempts.", "counter")
VERSION = Metric(
    "coredns_reload_version_info", "A metric with a constant '1' value labeled by hash, and value which type of hash generated.", "gauge", ("hash", "value")
)


def setup(controller: Controller) -> None:
    """``reload [INTERVAL] [JITTER] { canary … }``. The last one of a Corefile counts for the whole process."""
    while controller.next():
        arguments = controller.args(0, 2)
        interval = controller.duration(arguments[0]) if arguments else INTERVAL
        if interval < INTERVAL_LEAST:
            raise CorefileError("interval value must be greater or equal to 2s")
        jitter = controller.duration(arguments[1]) if len(arguments) > 1 else JITTER
        if jitter < 0 or 0 < jitter < JITTER_LEAST:
            raise CorefileError("jitter value must be 0 or greater or equal to 1s")
        jitter = min(jitter, interval // 2)
        controller.values.pop(RULES, None)
        while controller.next_block():
            if controller.val() != "canary":
                raise controller.err(f"unknown property '{controller.val()}'")
            controller.values[RULES] = parse_rules(controller.remaining_args(), lambda: FAILED.add(()))
        watch = controller.values.get("reload")
        if watch is None:
            watch = controller.values["reload"] = Watch(controller.process)
            controller.on_started(watch.start, whole=True)
            controller.on_shutdown(watch.stop)
        watch.period = (interval + (random.random() - 0.5) * jitter) / SECOND


class Watch:
    """Looks at the Corefile and its imports from time to time, for one configuration."""

    #: What did not parse last, and why: it is reported once. Hash of Corefile and error, or "".
    unparsed = ""

    def __init__(self, process: Process) -> None:
        self.process = process
        #: Seconds.
        self.period = INTERVAL / SECOND
        self.ended = threading.Event()

    def start(self) -> None:
        """Log what runs, and begin to look."""
        if self.process.instance is None:
            return
        self.process.tried = self.process.instance.checksum
        log.info(f"Running configuration SHA512 = {self.process.tried}")
        threading.Thread(target=self.run, name="reload", daemon=True).start()

    def stop(self) -> None:
        """Another configuration runs, or none."""
        self.ended.set()

    def run(self) -> None:
        while not self.ended.wait(self.period):
            self.look()

    def look(self) -> None:
        """Restart if the Corefile says something else than the last one that was tried. Unreadable: keep quiet and wait."""
        process = self.process
        if process.source is None or process.instance is None:
            return
        try:
            source = process.source.again()
        except OSError:
            return
        try:
            value = checksum(blocks_of(source, quiet=True))
        except CorefileError as error:
            self.refuse(source.data, error)
            return
        Watch.unparsed = ""
        if value == process.tried or self.ended.is_set():
            return
        process.tried = value
        if value == process.instance.checksum and process.canary is None:
            return  # what failed was taken back: a reload would empty caches
        VERSION.forget()
        VERSION.set(("sha512", value), 1)
        try:
            process.restart(source)
        except RestartError as error:
            log.error(f"Corefile changed but reload failed: {error}")
            FAILED.add(())

    def refuse(self, data: bytes, error: CorefileError) -> None:
        """Count and log a Corefile that does not parse, itself or what it imports, once for each content."""
        value = hash_of("sha512", data + str(error).encode()).hex()
        if value != Watch.unparsed:
            Watch.unparsed = value
            log.warning(f"Corefile parse failed: {error}")
            FAILED.add(())
