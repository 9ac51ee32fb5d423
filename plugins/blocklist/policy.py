"""The policy of a server block: its lists in one map of names, which is built beside the one that serves."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from fastdns import control
from fastdns._wire import name_text, name_wire
from fastdns.corefile import CorefileError
from fastdns.corefile.errors import defect
from fastdns.plugin import BELOW, DROP, EXACT, PASS, NameMap, NameMatch, Next, Plugin, Query, Record, Result, Verdict
from fastdns.plugins.blocklist.fetch import Body, FetchError
from fastdns.plugins.blocklist.lists import BLOCK, KINDS, LOCAL, NXDOMAIN, TCP, Contents, Local
from fastdns.plugins.blocklist.lists import DROP as DROPPED
from fastdns.plugins.blocklist.source import BLOCKED, DELAY_MOST, FIRST_DELAY, Source, UrlSource, log
from fastdns.protocol.header import FLAG_CD, FLAG_QR, FLAG_RD, FLAG_TC
from fastdns.protocol.parameters import TYPE_CNAME, TYPE_SOA
from fastdns.telemetry.counter import Counter
from fastdns.zonefile.presentation import rdata_wire

__all__ = ["SOURCES_MOST", "Answer", "Blocklist"]

#: A value of the map has a source and a kind.
SOURCES_MOST = 255 // KINDS

#: Lists are read, and maps built, on these threads of the process. They hold the GIL in turns of 5 ms, for which other plugins' threads wait: at the
#: pool's usual niceness such a turn would last as long as others keep the CPU.
READERS = control.Pool("blocklist", 4, niceness=control.NICENESS)

#: Seconds that a verdict holds: it is withdrawn when a list changes. Longer than any TTL, which would be cut to what is left.
REMEMBERED = 604_800.0

#: Extended errors (RFC 8914 4.5, 4.16).
FORGED, BLOCKED_ERROR = 4, 15


class Answer(NamedTuple):
    """What queries for blocked names get."""

    #: ``NXDOMAIN``, ``NOERROR``, ``REFUSED``.
    rcode: str = "NXDOMAIN"
    #: A and AAAA records.
    records: tuple[Record, ...] = ()


class _Refused(Exception):
    """A new version of a list is not used."""

    def __init__(self, source: Source, text: str) -> None:
        super().__init__(text)
        self.source = source


class Blocklist(Plugin):
    """Answers names of lists. `zones` has all of them, so that others pass by without Python."""

    zones: NameMap

    def __init__(self, sources: Sequence[Source], allowed: Sequence[tuple[str, int]], answer: Answer, ttl: int) -> None:
        """``allowed`` are names with their scopes; ``ttl`` is of answers and of their SOA record, in seconds."""
        self.zones = NameMap()
        self.sources = sources
        self.allowed = allowed
        self.answer = answer
        self.ttl = ttl
        self.counters = [Counter(BLOCKED, (source.label,)) for source in sources]
        self._soa = rdata_wire(TYPE_SOA, f"localhost. nobody.invalid. 1 3600 600 86400 {ttl}")
        #: By number of the source.
        self._local: dict[int, Local] = {}
        #: New versions that wait to be used.
        self._waiting: dict[Source, Body] = {}
        self._building = threading.Lock()
        self._lock = threading.Lock()
        self._tasks: list[control.eventloop.Task] = []
        self._stopped = False

    # ---- answering ----

    async def serve(self, query: Query, next: Next) -> Result:
        found = self.zones.match(query.name)
        if found is None:  # the map has changed since
            return PASS
        number, kind = divmod(found.value - 1, KINDS)
        counter = self.counters[number]
        if kind == TCP:
            if query.proto != "udp":
                return PASS
            BLOCKED.add((self.sources[number].label,))
            return _truncated(query)
        if kind == LOCAL:
            return await self._serve_local(query, next, found, number)
        if kind == DROPPED:
            return DROP.remember(REMEMBERED, suffix=found.suffix, all_types=True, counter=counter)
        if kind == BLOCK and self.answer.records:
            return self._serve_records(query, found, self.answer.records).remember(REMEMBERED, suffix=found.suffix, counter=counter)
        rcode = self.answer.rcode if kind == BLOCK else "NXDOMAIN" if kind == NXDOMAIN else "NOERROR"
        return self._serve_nothing(query, found, rcode).remember(REMEMBERED, suffix=found.suffix, all_types=True, counter=counter)

    def _serve_nothing(self, query: Query, found: NameMatch, rcode: str) -> Verdict:
        """An SOA record lets resolvers cache it (RFC 2308 5)."""
        soa = [Record(TYPE_SOA, self._soa, self.ttl, name_wire(found.name))] if rcode != "REFUSED" else []
        return query.reply(rcode=rcode, authority=soa, authoritative=rcode != "REFUSED", ede=BLOCKED_ERROR)

    def _serve_records(self, query: Query, found: NameMatch, records: Sequence[Record]) -> Verdict:
        fitting = [record for record in records if record.qtype == query.qtype]
        return query.reply(*fitting, ede=FORGED) if fitting else self._serve_nothing(query, found, "NOERROR")

    async def _serve_local(self, query: Query, next: Next, found: NameMatch, number: int) -> Result:
        records = self._local.get(number, {}).get((name_wire(found.name), EXACT if found.exact else BELOW))
        if records is None:  # the map has changed since
            return query.fail("SERVFAIL", f"the lists have changed while {query.name} was asked")
        counter = self.counters[number]
        alias = next_name = None
        for record in records:
            if record.qtype == TYPE_CNAME:
                alias, next_name = record, _target(query.name_wire, record.rdata)
        if alias is None or next_name is None or query.qtype == TYPE_CNAME:
            return self._serve_records(query, found, records).remember(REMEMBERED, counter=counter)
        BLOCKED.add((self.sources[number].label,))
        first = Record(TYPE_CNAME, next_name, alias.ttl)
        below = await next(query, name=name_text(next_name))
        if below.failed:
            return below
        return query.reply(first, *(record for section, record in below.records if section == 0), rcode=below.rcode, authoritative=False, ede=FORGED)

    # ---- the life of a configuration ----

    def start(self) -> None:
        """Read the files, and what was kept of URLs: on this thread, at its priority. Raises CorefileError for a file that cannot be used."""
        for source in self.sources:
            source.start()
        try:
            self._read_first()
        except BaseException:
            self.stop()
            raise

    def follow(self) -> None:
        """Keep the lists up to date from now on."""
        self._tasks = [control.spawn(self._follow(source), f"the list {source.label}") for source in self.sources]

    def stop(self) -> None:
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        for task in self._tasks:
            task.cancel()
        for source in self.sources:
            source.stop()

    def _read_first(self) -> None:
        for source in self.sources:
            if isinstance(source, UrlSource):
                body = source.restore()
                if body is not None:
                    log.info(f"Using the last version of {source.label} until it is fetched")
            else:
                try:
                    body = source.read()
                except FetchError as error:
                    raise CorefileError(f"list {source.place} {error}") from error
                source.confirm()
            if body is not None:
                self._waiting[source] = body
        files = [source for source in self._waiting if not isinstance(source, UrlSource)]
        self._update()
        for source in files:
            if source.body is None:
                raise CorefileError(f"list {source.place} {source.problem}")

    async def _follow(self, source: Source) -> None:
        fetched = isinstance(source, UrlSource)
        await control.sleep(0 if fetched else source.seconds)
        delay = FIRST_DELAY
        while True:
            try:
                good = await asyncio.wrap_future(READERS.submit(self.refresh, source))
            except Exception as error:  # the list goes on to be looked at, whatever it was
                source.fail(f"cannot be read: {defect(error)}")
                good = False
            if good:
                delay = FIRST_DELAY
                # Servers of lists need not be asked by all resolvers at a time.
                await control.sleep(source.seconds * random.uniform(0.9, 1.1) if fetched else source.seconds)
            else:
                await control.sleep(min(delay, source.seconds))
                delay = min(2 * delay, DELAY_MOST)

    def refresh(self, source: Source) -> bool:
        """Read a list, and use it if it has changed. False: there is none."""
        try:
            body = source.read()
        except FetchError as error:
            source.fail(str(error))
            return False
        if body is not None:
            with self._lock:
                self._waiting[source] = body
            self._update()
            if source.body is not body:
                return False
        if not self._stopped:
            source.confirm()
        return True

    # ---- building ----

    def _update(self) -> None:
        """Use the new versions that wait: all in one map. One that cannot be used leaves its former one."""
        with self._building:
            with self._lock:
                waiting, self._waiting = self._waiting, {}
            while waiting and not self._stopped:
                try:
                    self._build(waiting)
                    return
                except _Refused as refused:
                    del waiting[refused.source]
                    refused.source.fail(f"is not used: {refused}")

    def _build(self, fresh: dict[Source, Body]) -> None:
        """Raises _Refused."""
        began = time.monotonic()
        draft = self.zones.draft()
        for name, scopes in self.allowed:
            draft.add(name, 0, scopes)
        read: dict[Source, Contents] = {}
        local: dict[int, Local] = {}
        for exceptions in (True, False):
            for number, source in enumerate(self.sources):
                body = fresh.get(source, source.body)
                if source.exceptions != exceptions or body is None:
                    continue
                contents = read[source] = Contents(draft, None if exceptions else 1 + KINDS * number)
                try:
                    source.read_into(body, contents)
                    if source in fresh and not contents.names and source.names:
                        raise ValueError(f"it has no names, and had {source.names}")
                except (ValueError, MemoryError) as error:
                    # The former lists had room: one of the new ones before this one is to blame.
                    raise _Refused([one for one in read if one in fresh][-1], str(error) or "out of memory") from error
                if contents.local:
                    local[number] = contents.local
                if not exceptions:
                    draft.seal()
            draft.seal()
        with self._lock:
            if self._stopped:
                return
            # Queries find records of both versions until the new one serves.
            self._local = {number: {**self._local.get(number, {}), **local.get(number, {})} for number in {*self._local, *local}}
        try:
            self.zones.publish(draft)
        except MemoryError as error:
            raise _Refused([one for one in read if one in fresh][-1], "out of memory") from error
        self._local = local
        self.forget()
        for source, body in fresh.items():
            source.accept(body, read[source])
        log.info(f"{len(self.zones)} names in {len(read)} lists, read in {time.monotonic() - began:.1f} s")


def _truncated(query: Query) -> bytes:
    """An answer that has the client ask again over TCP (RFC 1035 4.1.1)."""
    question = query.name_wire + query.qtype.to_bytes(2, "big") + query.qclass.to_bytes(2, "big")
    flags = FLAG_QR | FLAG_TC | (query.flags & (FLAG_RD | FLAG_CD))
    return query.packet[:2] + flags.to_bytes(2, "big") + b"\0\1\0\0\0\0\0\0" + question


def _target(asked: bytes, target: bytes) -> bytes | None:
    """Where a CNAME of local data leads: ``*.garden.example.`` has the name asked in front of it. None: that is no name."""
    if not target.startswith(b"\1*"):
        return target
    whole = asked[:-1] + target[2:]
    return whole if len(whole) <= 255 else None
