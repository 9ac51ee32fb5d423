"""Services of which a zone has not all records: a warning when that begins and when it ends, and a counter."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from fastdns._wire import name_text
from fastdns.plugins.kubernetes.decode.cuts import LEFT_OUT
from fastdns.telemetry.log import Log

__all__ = ["LEFT_OUT", "Service", "show"]

#: Warnings in a minute.
LINES = 10

#: World and key (store/records.pxd).
Service = tuple[int, bytes]

_lock = threading.Lock()
#: By plugin and zone, what was shown last.
_services: dict[tuple[str, str], dict[Service, int]] = {}
_minute = _lines = 0


def show(plugin: str, zone: str, services: Mapping[Service, int]) -> None:
    """Report the services that miss records in a zone now, each with the number of those."""
    with _lock:
        before = _services.get((plugin, zone), {})
        if before == services:
            return
        if services:
            _services[plugin, zone] = dict(services)
        else:
            del _services[plugin, zone]
        log = Log(f"plugin/{plugin}")
        for service, count in services.items():
            more = count - before.get(service, 0)
            if more > 0:
                LEFT_OUT.add((plugin,), more)
            if service not in before:
                _warn(log, f"{zone}: {name_of(service)} is too large: {count} of its records are left out")
        for service in before.keys() - services.keys():
            _warn(log, f"{zone}: {name_of(service)} is too large no longer")


def name_of(service: Service) -> str:
    """A Service or ServiceImport, by namespace and name."""
    world, key = service
    name, namespace, *_ = name_text(key + b"\0").split(".")
    return f"{'ServiceImport' if world else 'Service'} {namespace}/{name}"


def _warn(log: Log, text: str) -> None:
    global _minute, _lines
    minute = int(time.monotonic() // 60)
    if minute != _minute:
        _minute, _lines = minute, 0
    _lines += 1
    if _lines <= LINES:
        log.warning(text)
