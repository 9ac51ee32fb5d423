"""hosts: answers from data in the format of /etc/hosts."""

from __future__ import annotations

import os
import stat

from fastdns import control
from fastdns.corefile.errors import system_error
from fastdns.index.index import Index
from fastdns.index.zone_list import ZoneList
from fastdns.plugins.hosts._hosts import HostsHandler
from fastdns.plugins.hosts.table import Entries, records
from fastdns.setup import Controller
from fastdns.setup.traits import Traits
from fastdns.telemetry.log import Log
from fastdns.telemetry.metrics import Metric

__all__ = ["Hosts", "Settings", "parse", "setup"]

TRAITS = Traits(runs_in_check=True)

log = Log("plugin/hosts")

SECOND = 10**9

ENTRIES = Metric("coredns_hosts_entries", "The combined number of entries in hosts and Corefile.", "gauge", ("hostsfile",))
TIMESTAMP = Metric("coredns_hosts_reload_timestamp_seconds", "The timestamp of the last reload of hosts file.", "gauge")


class Settings:
    """What a ``hosts`` directive says."""

    def __init__(self) -> None:
        self.path = "/etc/hosts"
        self.zones: list[str] = []
        #: Lines of the Corefile.
        self.inline: list[str] = []
        #: Seconds.
        self.ttl = 3600
        self.reverse = True
        #: Nanoseconds between two looks at the file; 0: none.
        self.reload = 5 * SECOND
        self.fall: list[str] = []
        self.unsupported = False


def setup(controller: Controller) -> None:
    """Add the block's handler; its index is filled before the block serves."""
    hosts = Hosts(parse(controller))
    controller.config.add_handler(hosts.handler)
    controller.on_startup(hosts.start)
    controller.on_started(hosts.watch)
    controller.on_shutdown(hosts.stop)


def parse(controller: Controller) -> Settings:
    """Read the directive. Raises CorefileError with the texts of CoreDNS."""
    settings = Settings()
    while controller.once():
        arguments = controller.remaining_args()
        if arguments:
            settings.path = controller.path(arguments.pop(0))
            _look_at(controller, settings.path)
        controller.reads(settings.path)
        settings.zones = controller.zones(arguments)
        while controller.next_block():
            _property(controller, settings)
    if settings.unsupported and not settings.fall:
        raise controller.err("fallthrough_unsupported requires fallthrough")
    return settings


def _look_at(controller: Controller, path: str) -> None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        log.warning(f"File does not exist: {path}")
        return
    except OSError as error:
        raise controller.err(f"unable to access hosts file '{path}': {system_error(error, 'stat', path)}") from error
    if stat.S_ISDIR(status.st_mode):
        log.warning(f'Hosts file "{path}" is a directory')


def _property(controller: Controller, settings: Settings) -> None:
    match controller.val():
        case "fallthrough":
            settings.fall = controller.fallthrough()
        case "fallthrough_unsupported":
            controller.no_args()
            settings.unsupported = True
        case "no_reverse":
            settings.reverse = False
        case "ttl":
            settings.ttl = _ttl(controller)
        case "reload":
            settings.reload = _reload(controller)
        case word if settings.fall:
            raise controller.err(f"unknown property '{word}'")
        case word:
            settings.inline.append(" ".join([word, *controller.remaining_args()]))


def _ttl(controller: Controller) -> int:
    arguments = controller.remaining_args()
    if not arguments:
        raise controller.err("ttl needs a time in second")
    try:
        ttl = controller.integer(arguments[0])
    except ValueError as error:
        raise controller.err("ttl needs a number of second") from error
    if not 0 < ttl <= 65535:
        raise controller.err("ttl provided is invalid")
    return ttl


def _reload(controller: Controller) -> int:
    arguments = controller.remaining_args()
    if len(arguments) != 1:
        raise controller.err("reload needs a duration (zero seconds to disable)")
    try:
        duration = controller.duration(arguments[0])
    except ValueError as error:
        raise controller.err(f"invalid duration for reload '{arguments[0]}'") from error
    if duration < 0:
        raise controller.err(f"invalid negative duration for reload '{arguments[0]}'")
    return duration


class Hosts:
    """The data of one server block: its file and its own lines, published in one index."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.zones = ZoneList(settings.zones)
        self.index = Index(flat=True)
        self.handler = HostsHandler("hosts", self.index, self.zones, ZoneList(settings.fall), settings.unsupported)
        self.inline = Entries(settings.inline, self.zones, settings.reverse)
        self._seen: tuple[int, int] | None = None
        self._timer: control.Timer | None = None

    def start(self) -> None:
        """Publish what there is, before the block serves."""
        if not self.read():
            self._publish([self.inline])

    def watch(self) -> None:
        """Look at the file from time to time, from now on."""
        if self.settings.reload:
            self._timer = control.every(self.settings.reload / SECOND, self.read)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def read(self) -> bool:
        """Read and publish the file if its size or time changed. False when it did not, or cannot be read: the old content stays."""
        try:
            with open(self.settings.path, encoding="utf-8", errors="surrogateescape") as file:
                status = os.fstat(file.fileno())
                if self._seen == (status.st_mtime_ns, status.st_size):
                    return False
                entries = Entries(file, self.zones, self.settings.reverse)
        except OSError:
            return False
        self._publish([entries, self.inline])
        self._seen = (status.st_mtime_ns, status.st_size)
        count = len(entries) + len(self.inline)
        log.debug(f"Parsed hosts file into {count} entries")
        ENTRIES.set((self.settings.path,), count)
        TIMESTAMP.set((), status.st_mtime_ns / SECOND)
        return True

    def _publish(self, sources: list[Entries]) -> None:
        wildcards = any(source.wildcards for source in sources)
        if wildcards:
            self.handler.wildcards = True
        self.index.replace(records(sources, self.settings.ttl))
        self.handler.wildcards = wildcards
