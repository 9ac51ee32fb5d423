"""dynupdate: a zone that clients change by DNS UPDATE (RFC 2136), authenticated by TSIG (RFC 3007)."""

from __future__ import annotations

import itertools
import os
import time
from functools import partial
from typing import TYPE_CHECKING

from fastdns import control
from fastdns._wire import name_text, name_wire
from fastdns.corefile import CorefileError
from fastdns.corefile.errors import quoted
from fastdns.corefile.zone import fqdn, origins
from fastdns.index.zone import Zone, ZoneSet
from fastdns.plugins.dynupdate._dynupdate import DynupdateHandler, Update, open_queue, serve_updates
from fastdns.plugins.dynupdate.content import ContentError, Limits, in_zone
from fastdns.plugins.dynupdate.policy import Permission, Permissions, policy_type
from fastdns.plugins.dynupdate.store import DynamicZone, Listener, acquire, prepare, release
from fastdns.plugins.file.source import notifier
from fastdns.protocol.header import OPCODE_UPDATE
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

if TYPE_CHECKING:
    from fastdns.corefile.lexer import Token

__all__ = ["Settings", "parse", "setup"]

TRAITS = Traits(runs_in_check=True, takes_updates=True)

LIMITS = ("max_records", "max_bytes", "max_update_records")


class Settings:
    """What a ``dynupdate`` directive says."""

    def __init__(self, origin: str, place: Token) -> None:
        #: With a final dot.
        self.origin = origin
        #: Where the directive stands.
        self.place = place
        self.seed = ""
        #: Absolute; "": the zone is in memory alone.
        self.database = ""
        self.permissions = Permissions(())
        self.limits = Limits()


class Directive:
    """A directive that serves."""

    def __init__(self, settings: Settings, prepared: DynamicZone, zones: ZoneSet) -> None:
        self.settings = settings
        self.zones = zones
        self.zone = prepared
        self.number = next(_numbers)
        self.listener = Listener(self._serve, settings.permissions.keys)
        self._acquired = False

    def start(self) -> None:
        """Have the zone, before it is served; nothing is written yet."""
        self.zone = acquire(self.zone, self.listener, self.settings.seed, self.settings.limits)
        self._acquired = True
        self._serve(self.zone.serving)
        _directives[self.number] = self
        _thread.start()

    def close(self) -> None:
        """No query is in the handler any more."""
        _directives.pop(self.number, None)
        if self._acquired:
            self._acquired = False
            release(self.zone, self.listener)

    def take(self, update: Update) -> None:
        self.zone.submit(partial(self.zone.update, update, self.settings.permissions, self.settings.limits, time.monotonic()), update.key)

    def _serve(self, serving: bool) -> None:
        # Queries of a zone without a version get SERVFAIL.
        self.zones.replace([self.zone.zone if serving else Zone(self.settings.origin)])


def setup(controller: Controller) -> None:
    """Add the block's handler. The records are read here, so that what is wrong with them refuses the Corefile."""
    settings = parse(controller)
    try:
        # A reload is refused, and the former configuration serves. At the start there is none: a file costs its zone alone.
        starting = controller.process is not None and controller.process.first_start
        prepared = prepare(settings.origin, settings.seed, settings.database, settings.limits, starting=starting)
    except ContentError as error:
        raise CorefileError(str(error), settings.place.file, settings.place.line) from error
    zones = ZoneSet([prepared.zone])
    directive = Directive(settings, prepared, zones)
    handler = DynupdateHandler("dynupdate", zones, origin=settings.origin, number=directive.number)
    handler.on_close = directive.close
    controller.config.add_handler(handler)

    def started() -> None:
        directive.listener.notify = notifier(controller.config)
        zone = directive.zone
        zone.submit(zone.open)
        if controller.process is not None and not controller.process.first_start and zone.users == 1:
            zone.watch()  # the process that this one takes over from (SIGUSR2) may have updates under way

    def stop() -> None:
        directive.listener.notify = None

    controller.on_startup(directive.start)
    controller.on_started(started)
    controller.on_upgrade(lambda: directive.zone.watch())
    controller.on_shutdown(stop)
    controller.on_inspection(lambda: _inspect(controller, settings))


def parse(controller: Controller) -> Settings:
    """Read the directive. Raises CorefileError with the texts of CoreDNS."""
    settings: Settings | None = None
    lines: list[Permission] = []
    limits: dict[str, int] = {}
    seen: set[str] = set()
    while controller.once():
        place = controller.place()
        settings = Settings(_origin(controller, place), place)
        while controller.next_block():
            word = controller.val()
            if word != "allow" and word in seen:
                raise controller.err(f"{word} specified more than once")
            seen.add(word)
            match word:
                case "file":
                    settings.seed = controller.one_arg()
                case "database":
                    settings.database = controller.one_arg()
                    if not settings.database:
                        raise controller.arg_err()
                case "allow":
                    lines.append(_permission(controller, settings.origin))
                case _ if word in LIMITS:
                    limits[word] = _limit(controller, word)
                case _:
                    raise controller.err(f"unknown property {quoted(word)}")
    if settings is None:
        raise controller.arg_err()
    if "file" not in seen:
        raise controller.err("file is required")
    if not lines:
        raise controller.err("at least one allow rule is required")
    defaults = Limits()
    settings.permissions = Permissions(lines)
    settings.limits = Limits(
        limits.get("max_records", defaults.records), limits.get("max_bytes", defaults.octets), limits.get("max_update_records", defaults.update_records)
    )
    settings.seed = controller.path(settings.seed)
    if settings.database:
        settings.database = os.path.abspath(controller.path(settings.database, reads=False))
    return settings


def _origin(controller: Controller, place: Token) -> str:
    arguments = controller.remaining_args()
    if len(arguments) > 1:
        raise CorefileError("exactly one zone is allowed", place.file, place.line)
    if not arguments:
        zones = {fqdn(zone).lower() for zone in controller.zones([])}
        if len(zones) != 1:
            raise CorefileError("zone is required when the server block does not define exactly one zone", place.file, place.line)
        return zones.pop()
    found = origins(arguments[0])
    if len(found) != 1:
        raise CorefileError(f"invalid zone {quoted(arguments[0])}", place.file, place.line)
    return fqdn(found[0]).lower()


def _limit(controller: Controller, word: str) -> int:
    text = controller.one_arg()
    try:
        number = controller.integer(text)
    except ValueError:
        number = 0
    if number <= 0:
        raise controller.err(f"{word} requires a positive integer")
    return number


def _permission(controller: Controller, origin: str) -> Permission:
    place = controller.place()
    arguments = controller.remaining_args()

    def refused(text: str) -> CorefileError:
        return CorefileError(text, place.file, place.line)

    if len(arguments) < 3:
        raise refused("allow requires KEY NAME and at least one RR type")
    key, name, *types = arguments
    if not key.strip() or key in ("*", "@"):
        raise refused(f"invalid TSIG key {quoted(key)}")
    try:
        key_wire = name_wire(fqdn(key).lower())
    except ValueError:
        raise refused(f"invalid TSIG key {quoted(key)}") from None
    name_octets: bytes | None = None
    if name != "*":
        origin_wire = name_wire(origin)
        try:
            name_octets = origin_wire if name == "@" else name_wire(fqdn(name).lower())
        except ValueError:
            name_octets = b""
        if not in_zone(name_octets, origin_wire):
            raise refused(f"allow name {quoted(name)} is outside zone {quoted(origin)}")
    if "*" in types:
        if len(types) > 1:
            raise refused("wildcard RR type must be the only type in an allow rule")
        return Permission(key_wire, name_octets, None)
    numbers = set()
    for text in types:
        number = policy_type(text)
        if number is None:
            raise refused(f"invalid RR type {quoted(text)} in allow rule")
        numbers.add(number)
    return Permission(key_wire, name_octets, frozenset(numbers))


# ---- fastdns check ----


def _inspect(controller: Controller, settings: Settings) -> None:
    """Report what lets no UPDATE pass, or unsigned ones come as far as here."""
    tsig = controller.config.values.get("tsig")
    if tsig is None:
        controller.suspect("every UPDATE is refused: the block has no tsig", "add tsig with the keys of the allow lines", settings.place)
    elif not any(in_zone(name_wire(settings.origin), name_wire(fqdn(zone).lower())) for zone in tsig.zones):
        controller.suspect(f"every UPDATE is refused: tsig is not for {settings.origin}", "", settings.place)
    elif OPCODE_UPDATE not in tsig.opcodes and not tsig.all_opcodes:
        controller.suspect("tsig does not require UPDATE to be signed", "add `require_opcode UPDATE` to tsig", settings.place)
    known = {name_wire(name) for _, secrets in controller.values.get("tsig", ()) for name in secrets}
    for key in settings.permissions.keys if tsig is not None else ():
        if key not in known:
            controller.suspect(f"no tsig has the key {name_text(key)} of an allow line", "", settings.place)
    if settings.database and not os.access(os.path.dirname(settings.database), os.W_OK | os.X_OK):
        controller.suspect(f"the folder of {settings.database} is not there or cannot be written to", "", settings.place)


# ---- updates ----

_numbers = itertools.count(1)
_directives: dict[int, Directive] = {}
_thread = control.OffloadThread("updates", open_queue, lambda: serve_updates(_take))


def _take(update: Update) -> None:
    directive = _directives.get(update.number)
    if directive is not None:
        directive.take(update)
