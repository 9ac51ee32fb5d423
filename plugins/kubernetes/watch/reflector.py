"""List and watch of one kind, for ever: what client-go calls a reflector, without its second copy of the list.

A streaming list (sendInitialEvents) where the server has it, else a list in chunks; then a watch with bookmarks that resumes where it ended. Whatever
goes wrong, the store keeps what it has, and the log says what CoreDNS's would.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

from fastdns.control import Signal, sleep
from fastdns.control.connection import Unreachable
from fastdns.plugins.kubernetes.decode.stream import ApiError, StreamError
from fastdns.plugins.kubernetes.watch.client import STALLED, Reply
from fastdns.plugins.kubernetes.watch.problems import UNLISTED, Failure
from fastdns.telemetry import events
from fastdns.telemetry.log import Log

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastdns.plugins.kubernetes.decode.stream import Stream
    from fastdns.plugins.kubernetes.watch.client import Client
    from fastdns.plugins.kubernetes.watch.resources import Resource
    from fastdns.plugins.kubernetes.watch.selectors import Selector

#: Objects in a chunk of a list.
CHUNK = 500
#: Seconds of a watch before the server ends it, chosen between these.
WATCH = (300.0, 600.0)
#: Seconds between two tries: first, most, and most while nothing of this API server answers at all and one reflector tries for all.
FIRST_PAUSE = 0.8
LONGEST_PAUSE = 30.0
PROBE_PAUSE = 1.5
#: Seconds before the same failure is logged again.
REPEAT = 60.0
#: Seconds between two tries to list all namespaces while named ones are watched, at least.
ASK_AGAIN = 30.0
#: A watch shorter than this without an event is no success.
SHORT = 1.0
#: How long a server that refused a streaming list is not asked for one again.
NO_STREAMING = 3600.0

ACCEPT = "application/vnd.kubernetes.protobuf,application/json"

log = Log("plugin/kubernetes")


class Health:
    """Which reflectors of one API server are cut off from it. While none gets through, one tries often; when it does, all try."""

    def __init__(self) -> None:
        self.up: set[Reflector] = set()
        self.down: list[Reflector] = []
        self.back = Signal()

    def lost(self, one: Reflector) -> bool:
        """The server did not answer this one. True when it is the one to try for all."""
        self.up.discard(one)
        if one not in self.down:
            self.down.append(one)
        return self.down[0] is one and not self.up

    def reached(self, one: Reflector) -> None:
        """The server answered."""
        self.up.add(one)
        if one in self.down:
            self.down.remove(one)
            self.back.wake()

    def forget(self, one: Reflector) -> None:
        """It ended, or the server answered it with a refusal."""
        self.up.discard(one)
        if one in self.down:
            self.down.remove(one)


class NoStreaming(Exception):
    """Ask for the list in chunks this time."""


class Reflector:
    """Keeps one kind of a sink in step with the API server."""

    def __init__(self, client: Client, resource: Resource, selector: Selector, stream: Stream, health: Health) -> None:
        self.client = client
        self.resource = resource
        self.selector = selector
        self.stream = stream
        self.health = health
        #: Whether the kind was listed whole since this reflector began.
        self.synced = False
        self.on_synced: Callable[[], object] = bool
        #: Called when the server refuses a list; True: there is another way.
        self.on_forbidden: Callable[[ApiError], bool] = lambda error: False
        #: Called when it does not.
        self.on_allowed: Callable[[], object] = bool
        #: Called when the server does not know the resource; seconds until the next try, None: as after any error.
        self.on_absent: Callable[[], float | None] = lambda: None
        #: When changes ceased to come (`time.monotonic`); None: they come, or nothing was listed yet. `on_contact` is called when that changes.
        self.lost: float | None = None
        self.on_contact: Callable[[], object] = bool
        self.relists = 0
        self.pause = FIRST_PAUSE
        self.resumable = False
        #: Why it is not.
        self.cause = ""
        #: Whether the server has `stream.version`: it said so, or the last watch went on for as long as it was asked for.
        self.confirmed = False
        self.no_streaming_until = 0.0
        self.cut_short = 0
        self.logged: tuple[str, float] | None = None
        #: What has not worked since; `failing` ends it.
        self.failure: Failure | None = Failure(time.monotonic(), UNLISTED)
        #: When the watch that is being read has begun (`time.monotonic`).
        self.followed: float | None = None

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                await self._round()
        finally:
            self.health.forget(self)

    async def _round(self) -> None:
        """One list or watch, and the pause that its end deserves."""
        try:
            if self.resumable:
                await self._watch()
            else:
                await self._list()
        except Unreachable as error:
            self._fail(str(error), answers=False)
            if not error.refused:
                self._say(self._failed(f'Get "{self._url()}": {error}'))
            await self._sleep(outage=True)
        except ApiError as error:
            await self._refused(error, not self.resumable)
        except (StreamError, MemoryError) as error:
            text = "out of memory" if isinstance(error, MemoryError) else str(error)
            self._fail(text, answers=True)
            self._say(f"unable to decode an event from the watch stream: {text}" if self.resumable else self._failed(text))
            self._not_resumable_after_repeats(f"unable to decode an event: {text}")
            await self._sleep()
        except OSError as error:  # credentials
            self._fail(str(error), answers=True)
            self._say(self._failed(f'Get "{self._url()}": {error}'))
            await self._sleep()
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}", answers=True)
            raise

    # ---- asking ----

    def _path(self, **query: str) -> str:
        selector = str(self.selector)
        if self.resource.fields:
            query["fieldSelector"] = self.resource.fields
        if selector:
            query["labelSelector"] = selector
        return self.resource.path + "?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in sorted(query.items()))

    def _url(self) -> str:
        return self.client.api.address.url + self.resource.path

    async def _get(self, path: str, limited: bool = True) -> Reply:
        """A reply with status 200. ApiError for others; new credentials are tried once for a 401."""
        accept = self.resource.accept or ACCEPT
        reply = await self.client.get(path, accept, limited)
        if reply.status == 401:
            failure = await reply.failure(self.stream)
            if not await self.client.api.refused():
                raise failure
            reply = await self.client.get(path, accept, limited)
        if reply.status != 200:
            raise await reply.failure(self.stream)
        self.health.reached(self)
        return reply

    async def _list(self) -> None:
        if time.monotonic() >= self.no_streaming_until:
            try:
                await self._streaming_list()
            except NoStreaming:
                pass
            else:
                return
        await self._chunked_list()

    async def _streaming_list(self) -> None:
        """The list as the beginning of a watch, which goes on behind it."""
        seconds = self._seconds()
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "timeoutSeconds": str(seconds),
        }
        if self.stream.version:
            query["resourceVersion"] = self.stream.version
        try:
            reply = await self._get(self._path(**query))
        except ApiError as error:
            if error.code in (400, 405, 422, 501):
                self.no_streaming_until = time.monotonic() + NO_STREAMING
            # Who may list and not watch gets that far, as with client-go.
            if error.code in (400, 403, 405, 422, 501):
                raise NoStreaming from None
            raise
        self._begin_list()
        try:
            await self._follow(reply, seconds, initial=True)
        except ApiError as error:  # an event: of an etcd that cannot do it, for one
            if self.stream.listing and error.code not in (401, 403, 410, 429, 503) and not too_large(error):
                self.no_streaming_until = time.monotonic() + NO_STREAMING
                raise NoStreaming from None
            raise
        if self.stream.listing:
            self.cut_short += 1
            if self.cut_short > 2:  # a server that does not know the parameters never says that the list is over
                self.cut_short = 0
                self.no_streaming_until = time.monotonic() + NO_STREAMING
                raise NoStreaming
            raise StreamError("the list is cut short")

    async def _chunked_list(self) -> None:
        await self._read_list(self._begin_list)
        self.stream.commit_list()
        self._listed()
        if not self.resumable:  # a list without a version: nothing to watch from
            await self._sleep()

    async def _read_list(self, begin: Callable[[], object]) -> None:
        """A list in chunks; ``begin`` is called before the first object."""
        following = ""
        begun = False
        while True:
            query = {"limit": str(CHUNK)}
            if following:
                query["continue"] = following
            reply = await self._get(self._path(**query), not following)
            try:
                if not begun:
                    begin()
                    begun = True
                self.stream.begin(reply.content_type, False, reply.length)
                if not await reply.body(self.stream, STALLED, lambda: True):
                    raise StreamError("the list is cut short")
                self.stream.finish_list()
            finally:
                reply.done()
            following = self.stream.following
            if not following:
                break

    def _begin_list(self) -> None:
        if self.failure is None or self.failure.cause == UNLISTED:
            self._fail("the list is not complete", answers=True)
        self.on_allowed()
        if self.synced:
            self.relists += 1
            events.note("relist", self.resource.path, self.cause)
        self.stream.begin_list()

    def _listed(self) -> None:
        """A list is whole."""
        self.synced = True
        self._succeeded()
        self._in_contact(True)
        self.on_synced()

    def _succeeded(self) -> None:
        self.resumable = self.confirmed = bool(self.stream.version)
        self.cause = "the server's list had no version that a watch could go on from"
        self.pause = FIRST_PAUSE
        self.cut_short = 0
        self.logged = None

    async def _watch(self) -> None:
        if not self.confirmed:
            await self._confirm()
        seconds = self._seconds()
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.stream.version,
            "timeoutSeconds": str(seconds),
        }
        reply = await self._get(self._path(**query))
        self._in_contact(True)
        await self._follow(reply, seconds)

    async def _confirm(self) -> None:
        """Asks whether the server has come as far as the version to go on from. ApiError where it has not.

        It has not when its etcd was restored from a backup. A watch from there would be silent until etcd has come that far again, and never say
        what differs. For that an API server is stopped, which ends watches. Who cannot answer this is not asked again.
        """
        try:
            reply = await self._get(self._path(limit="1", resourceVersion=self.stream.version, resourceVersionMatch="NotOlderThan"))
            await reply.text(self.stream)
        except ApiError as error:
            if too_large(error) or error.code in (401, 429) or error.code >= 500:
                raise
        self.confirmed = True

    def _seconds(self) -> int:
        return round(random.uniform(*WATCH))

    async def _follow(self, reply: Reply, seconds: int, initial: bool = False) -> None:
        """Read a watch, which was asked for so many seconds, to its end."""
        begun = self.followed = time.monotonic()
        stream = self.stream
        lost = ""
        try:
            stream.begin(reply.content_type, True, reply.length, initial)
            await reply.body(stream, WATCH[1] + 15.0, lambda: stream.listing, self._progress)
        except Unreachable as error:
            if initial and stream.listing:
                raise
            lost = str(error)
        finally:
            self.followed = None
            self.confirmed = time.monotonic() - begun >= seconds
            self._in_contact(False)
            reply.done()
            for namespace, name, text in stream.take_warnings():
                self._warn_trigger(namespace, name, text)
        short = time.monotonic() - begun < SHORT
        if not stream.listing and (stream.objects or not short):
            self.failure = None
        if lost or short:
            self._fail(lost or "the watch ends at once", answers=not lost)
        if not initial and not stream.events and short:
            await self._sleep()
        elif not initial:
            self.pause = FIRST_PAUSE
            self.logged = None

    def _in_contact(self, yes: bool) -> None:
        """Whether changes come."""
        if yes != (self.lost is None):
            self.lost = None if yes else time.monotonic()
            self.on_contact()

    def _progress(self) -> None:
        """Called behind each piece of a watch."""
        if not self.resumable and not self.stream.listing:
            self._listed()

    def _warn_trigger(self, namespace: str, name: str, text: str) -> None:
        log.warning(
            f"DnsProgrammingLatency cannot be calculated for Endpoints '{namespace}/{name}'; invalid"
            f' "endpoints.kubernetes.io/last-change-trigger-time" annotation RFC3339 value of "{text}"'
        )

    # ---- failing ----

    def failing(self, now: float) -> Failure | None:
        """What does not work at the moment. A watch works once it has gone on for a second, or brought an object."""
        if self.followed is not None and not self.stream.listing and (now - self.followed >= SHORT or self.stream.objects):
            self.failure = None
        return self.failure

    def _fail(self, cause: str, answers: bool) -> None:
        """A try has failed. ``answers``: the API server has answered, so the failure is one of ours or of our rights."""
        now = time.monotonic()
        if self.failure is None:
            self.failure = Failure(now, cause)
        self.failure.again(now, cause, answers)

    async def _refused(self, error: ApiError, listing: bool) -> None:
        """The server sent an error."""
        if error.code == 410 or too_large(error):
            # Expired: list anew, but not older than what we have; when that fails too, or the server's clock went back, whatever it has.
            if listing or too_large(error):
                self.stream.version = ""
                await self._sleep()
            self.resumable = False
            self.cause = f"the server cannot go on from the version of the watch: {self._text(error)}"
            return
        if error.code == 403 and listing and self.on_forbidden(error):
            self.failure = None  # namespaces are watched one by one
            self.health.forget(self)
            await sleep(ASK_AGAIN * random.uniform(1.0, 2.0))
            return
        if error.code == 404 and listing and (seconds := self.on_absent()) is not None:
            self.health.forget(self)
            if seconds:  # there are none of this kind
                self.failure = None
            await sleep(seconds)
            return
        self._fail(self._text(error), answers=error.code < 500 and error.code != 429)
        if error.code == 429 and error.retry_after:
            if listing:
                self._say(self._failed(self._text(error)))
            await sleep(min(error.retry_after, 600.0) * random.uniform(1.0, 1.5))
            return
        if listing or error.code < 500:
            self._say(self._failed(self._text(error)) if listing else self._text(error))
        outage = error.code >= 500 or error.code == 429
        if not outage:
            self.health.forget(self)
            self._not_resumable_after_repeats(self._text(error))
        await self._sleep(outage, error.retry_after)

    def _not_resumable_after_repeats(self, text: str) -> None:
        """When resuming fails again and again for no reason we know, list anew. ``text`` is what the last try ended with."""
        self.cut_short += 1
        if self.resumable and self.cut_short > 2:
            self.cut_short = 0
            self.resumable = False
            self.cause = f"three tries to go on with the watch have failed: {text}"

    def _text(self, error: ApiError) -> str:
        """The server's message, or client-go's for a status without one."""
        if error.message:
            return error.message
        generic = {
            401: "the server has asked for the client to provide credentials",
            403: "forbidden",
            404: "the server could not find the requested resource",
            429: "the server has received too many requests and has asked us to try again later",
            503: "the server is currently unable to handle the request",
        }
        if error.code in generic:
            return f"{generic[error.code]} (get {self.resource.plural})"
        return f"an error on the server ({str(error)!r}) has prevented the request from succeeding (get {self.resource.plural})"

    def _failed(self, text: str) -> str:
        return f"failed to list {self.resource.type}: {text}"

    def _say(self, text: str) -> None:
        """Log a failure; the same one again only after a while."""
        now = time.monotonic()
        if self.logged is not None and self.logged[0] == text and now - self.logged[1] < REPEAT:
            return
        self.logged = (text, now)
        log.error(f"Failed to watch: {''.join(one if one.isprintable() else repr(one)[1:-1] for one in text)}")

    async def _sleep(self, outage: bool = False, at_least: float = 0.0) -> None:
        """Back off. In an outage one reflector tries often, and wakes the others when it gets through."""
        most = PROBE_PAUSE if outage and self.health.lost(self) else LONGEST_PAUSE
        delay = min(self.pause, most) * random.uniform(0.5, 1.0)
        self.pause = min(self.pause * 2, LONGEST_PAUSE)
        await sleep(max(delay, min(at_least, 600.0)), self.health.back if outage else None)


def too_large(error: ApiError) -> bool:
    """Whether the server has not come as far as the version asked for: it lags, or its etcd came back from a backup."""
    return error.code == 504 or "Too large resource version" in error.message
