"""``cache``: a front-end cache with a success and a denial store, prefetch and serve-stale."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from fastdns.corefile import CorefileError
from fastdns.corefile.duration import in_seconds
from fastdns.setup import Controller
from fastdns.setup.traits import Traits

if TYPE_CHECKING:
    from fastdns.plugins.cache._cache import CacheHandler

__all__ = ["Settings", "parse", "setup"]

TRAITS = Traits(answers=False, runs_in_check=True, takes_over=True, explain={"query answered": "hit", "query next": "miss", "reply up": "saw the reply"})

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
#: RFC 2308 section 7: failures are kept for 5 minutes at most.
FAILURE_MOST = 5 * MINUTE
TTL_MOST = 2**32 - 1
UNKEPT = "snapshot keeps nothing: a plugin that is not of this project may read anything, so whether the block is the same after a restart is not known"
#: A duration, which stands here by mistake.
TIME = re.compile(r"(\d+(\.\d+)?(ns|us|ms|s|m|h))+")


class Settings:
    """What a ``cache`` directive says. Times in nanoseconds, TTLs in seconds."""

    def __init__(self) -> None:
        self.zones = ["."]
        self.success_capacity = 10000
        self.success_ttl = 3600
        self.success_least = 5
        self.denial_capacity = 10000
        self.denial_ttl = 1800
        self.denial_least = 5
        self.servfail = 5 * SECOND
        #: Hits that make an entry worth a prefetch; 0: none.
        self.prefetch = 0
        #: Hits further apart than this do not add up.
        self.prefetch_duration = MINUTE
        #: Share of the TTL that is left when a prefetch starts.
        self.prefetch_percentage = 10
        #: For how long expired entries are served; 0: not.
        self.stale = 0
        #: Ask first and serve what is stale only if that fails.
        self.verify = False
        #: How long a client waits for that; 0: as long as it takes.
        self.verify_timeout = 0
        #: TTL of stale records; 0: none.
        self.stale_ttl = 0
        #: For how long no refresh is tried after a failed one.
        self.recheck = 0
        self.prefer_positive = False
        self.disable_success: list[str] = []
        self.disable_denial: list[str] = []
        self.keepttl = False
        #: File that keeps the entries over a restart; "": none.
        self.snapshot = ""
        #: Seconds between two writes of it.
        self.snapshot_seconds = 60.0


def setup(controller: Controller) -> None:
    """Add the block's cache; what the cache of the same block has goes on in it at a reload."""
    settings = parse(controller)
    from fastdns.plugins.cache._cache import CacheHandler

    config = controller.config
    handler = CacheHandler(settings, config.handlers)
    config.add_handler(handler)

    def take_over() -> None:
        former = config.predecessor.handler("cache") if config.predecessor is not None else None
        if isinstance(former, CacheHandler):
            handler.take_over(former)

    controller.on_startup(take_over)
    if controller.share < 1:
        # A canary: both configurations' caches together have little more than one.
        controller.on_startup(lambda: handler.bound(controller.share))
        controller.on_started(lambda: handler.bound(1.0), whole=True)
    if settings.snapshot:
        _keep(controller, settings, handler)


def _keep(controller: Controller, settings: Settings, handler: CacheHandler) -> None:
    """Have the cache outlast the process in its file."""
    from fastdns.plugins.cache.snapshot import Snapshot

    config, process = controller.config, controller.process
    labels = ",".join(settings.zones), config.view
    snapshot = Snapshot(settings.snapshot, settings.snapshot_seconds, handler, labels, settings.stale // SECOND, settings.prefer_positive)
    first = True

    def start() -> None:
        nonlocal first
        first = getattr(process, "instance", None) is None

    def begin() -> None:
        snapshot.begin(config.identity, load=first, remove=not first and not handler.inherited)

    controller.on_inspection(lambda: None if config.identity else controller.suspect(UNKEPT))
    controller.on_startup(start)
    controller.on_started(begin, whole=True)
    controller.on_upgrade(snapshot.hand_over)
    controller.on_shutdown(snapshot.stop)
    controller.on_final_shutdown(snapshot.finish)


def parse(controller: Controller) -> Settings:
    """Read the directive. Raises CorefileError and ValueError with the texts of CoreDNS."""
    settings = Settings()
    while controller.once():
        arguments = controller.remaining_args()
        ttl = _number(controller, arguments[0]) if arguments else None
        if ttl is not None:
            settings.success_ttl = settings.denial_ttl = _positive(ttl)
            del arguments[0]
        for word in arguments:
            if TIME.fullmatch(word):
                controller.suspect(f"'{word}' is taken for a zone: a TTL is a number of seconds, such as `cache 30`")
        settings.zones = controller.zones(arguments)
        stale = policy = False
        while controller.next_block():
            name = controller.val()
            if name not in PROPERTIES:
                raise controller.arg_err()
            if name == "serve_stale_policy" and policy:
                raise CorefileError("serve_stale_policy can only be specified once")
            stale |= name == "serve_stale"
            policy |= name == "serve_stale_policy"
            PROPERTIES[name](controller, settings)
        if policy and not stale:
            raise CorefileError("serve_stale_policy requires serve_stale")
    return settings


# ---- properties ----


def _store(controller: Controller, settings: Settings) -> None:
    """``success`` and ``denial``: capacity, TTL, least TTL."""
    name = controller.val()
    arguments = controller.args(1)
    setattr(settings, f"{name}_capacity", controller.integer(arguments[0]))
    if len(arguments) > 1:
        setattr(settings, f"{name}_ttl", _positive(controller.integer(arguments[1])))
    if len(arguments) > 2:
        least = controller.integer(arguments[2])
        if least < 0:
            raise CorefileError(f"cache min TTL can not be negative: {least}")
        setattr(settings, f"{name}_least", least)


def _prefetch(controller: Controller, settings: Settings) -> None:
    arguments = controller.args(1, 3)
    amount = controller.integer(arguments[0])
    if amount < 0:
        raise CorefileError(f"prefetch amount should be positive: {amount}")
    settings.prefetch = amount
    if len(arguments) > 1:
        settings.prefetch_duration = controller.duration(arguments[1])
    if len(arguments) > 2:
        last = arguments[2][-1:]
        if last != "%":
            raise CorefileError(f"last character of percentage should be `%`, but is: '{last}'")
        percentage = controller.integer(arguments[2][:-1])
        if not 10 <= percentage <= 90:
            raise CorefileError(f"percentage should fall in range [10, 90]: {percentage}")
        settings.prefetch_percentage = percentage


def _serve_stale(controller: Controller, settings: Settings) -> None:
    arguments = controller.args(0, 5)
    settings.stale, settings.verify, settings.verify_timeout, settings.stale_ttl, settings.recheck = HOUR, False, 0, 0, 0
    if arguments:
        settings.stale = controller.duration(arguments[0])
        if settings.stale < 0:
            raise CorefileError("invalid negative duration for serve_stale")
    if len(arguments) > 1:
        mode = arguments[1].lower()
        if mode not in ("immediate", "verify"):
            raise CorefileError(f"invalid value for serve_stale refresh mode: {mode}")
        settings.verify = mode == "verify"
    rest = arguments[2:]
    if settings.verify:
        if rest:
            settings.verify_timeout = _duration(controller, rest.pop(0), "invalid serve_stale verify timeout")
            if settings.verify_timeout < 0:
                raise CorefileError("invalid negative timeout for serve_stale verify")
    elif len(rest) > 2:
        raise controller.arg_err()
    if rest:
        settings.stale_ttl = _stale_ttl(controller, rest[0])
    if len(rest) > 1:
        settings.recheck = _recheck(controller, rest[1])


def _stale_ttl(controller: Controller, text: str) -> int:
    ttl = _duration(controller, text, "invalid serve_stale response TTL")
    if ttl < 0:
        raise CorefileError("invalid negative response TTL for serve_stale")
    if ttl % SECOND:
        raise CorefileError("serve_stale response TTL must be a whole number of seconds")
    if ttl // SECOND > TTL_MOST:
        raise CorefileError("serve_stale response TTL exceeds the DNS TTL range")
    return ttl


def _recheck(controller: Controller, text: str) -> int:
    recheck = _duration(controller, text, "invalid serve_stale failure recheck")
    if recheck < 0:
        raise CorefileError("invalid negative failure recheck for serve_stale")
    if recheck > FAILURE_MOST:
        raise CorefileError("serve_stale failure recheck cannot exceed 5 minutes")
    return recheck


def _policy(controller: Controller, settings: Settings) -> None:
    policy = controller.one_arg()
    if policy.lower() != "prefer_positive":
        raise CorefileError(f"invalid serve_stale_policy: {policy}")
    settings.prefer_positive = True


def _servfail(controller: Controller, settings: Settings) -> None:
    settings.servfail = controller.duration(controller.one_arg())
    if settings.servfail < 0:
        raise CorefileError("invalid negative ttl for servfail")
    if settings.servfail > FAILURE_MOST:
        raise CorefileError("caching SERVFAIL responses over 5 minutes is not permitted")


def _disable(controller: Controller, settings: Settings) -> None:
    kind, *zones = controller.args(1)
    names = []
    for zone in zones:
        normalized = controller.zones([zone])
        if not normalized:
            raise CorefileError(f"invalid disabled zone: {zone}")
        names += normalized
    if kind not in ("success", "denial"):
        raise CorefileError('cache type for disable must be "success" or "denial"')
    setattr(settings, f"disable_{kind}", names or ["."])


def _keepttl(controller: Controller, settings: Settings) -> None:
    controller.no_args()
    settings.keepttl = True


def _kept(controller: Controller, settings: Settings) -> None:
    """The file, and how often it is written."""
    arguments = controller.args(1, 2)
    settings.snapshot = controller.path(arguments[0], reads=False)
    path = os.path.abspath(settings.snapshot)
    paths: set[str] = controller.values.setdefault("cache/snapshots", set())
    if path in paths:
        raise controller.err(f"snapshot {settings.snapshot} is that of another cache")
    paths.add(path)
    if not os.path.isdir(os.path.dirname(path)):
        controller.suspect(f"there is no folder {os.path.dirname(path)} for the snapshot")
    if len(arguments) > 1:
        settings.snapshot_seconds = controller.seconds(in_seconds(arguments[1]))
        if settings.snapshot_seconds < 1:
            raise controller.err(f"snapshot must be at least a second apart: {arguments[1]}")


PROPERTIES = {
    "success": _store,
    "denial": _store,
    "prefetch": _prefetch,
    "serve_stale": _serve_stale,
    "serve_stale_policy": _policy,
    "servfail": _servfail,
    "disable": _disable,
    "keepttl": _keepttl,
    "snapshot": _kept,
}


# ---- values ----


def _number(controller: Controller, text: str) -> int | None:
    try:
        return controller.integer(text)
    except ValueError:
        return None


def _positive(ttl: int) -> int:
    if ttl <= 0:
        raise CorefileError(f"cache TTL can not be zero or negative: {ttl}")
    return ttl


def _duration(controller: Controller, text: str, wrong: str) -> int:
    try:
        return controller.duration(text)
    except ValueError as error:
        raise CorefileError(f"{wrong}: {error}") from None
