"""For the tests of plugin authors: ask a plugin without sockets, compare answers as tables, script an upstream.

    def test_hello():
        answer = ask(Hello(), "hello.example.org", "TXT")
        check(answer, Case("hello.example.org", "TXT", answer=['hello.example.org. 5 IN TXT "hi"']))

An `Executor` asks one plugin several times as a server does: it applies cached verdicts. `configure` runs a plugin's set-up for a Corefile.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rrset

from fastdns._wire import name_wire
from fastdns.executor.query import Given
from fastdns.executor.request import make_query
from fastdns.executor.verdicts import Verdicts
from fastdns.index.name_map import NameMap
from fastdns.index.zone_list import ZoneList
from fastdns.plugin import Plugin
from fastdns.protocol.header import FLAG_RD, flags_rcode, message_flags
from fastdns.protocol.parameters import TYPE_A, TYPE_OPT, type_number
from fastdns.query import DROP, PASS, Answer, Cluster, Failure, Query, Remembered, Reply
from fastdns.setup import registry

__all__ = ["Case", "Dropped", "Executor", "Failed", "Lane", "Passed", "Upstream", "ask", "check", "configure", "make"]


class Passed(Exception):
    """The plugin passed the query on, or its name is outside of `Plugin.zones`; and nothing below it answers."""


class Dropped(Exception):
    """No reply is sent."""


class Failed(Exception):
    """The plugin failed the query; ``rcode`` and ``error`` say how."""

    def __init__(self, rcode: int, error: str) -> None:
        super().__init__(f"{dns.rcode.to_text(dns.rcode.Rcode(rcode))}: {error}")
        self.rcode = rcode
        self.error = error


#: Stands for the plugins below: takes (name, type number), gives a message's octets, records as texts, or None for a failure.
Below = Callable[[str, int], "bytes | Sequence[str] | None"]


def make(
    name: str,
    qtype: str = "A",
    *,
    client: str = "127.0.0.1",
    port: int = 40000,
    tcp: bool = False,
    dnssec: bool = False,
    metadata: Mapping[str, str] | None = None,
    cluster: Cluster | None = None,
) -> Query:
    """A query as a plugin gets it from ``client``. ``metadata`` and ``cluster`` stand for what other plugins of the server block give.

    Raises ValueError for a bad name, type or address.
    """
    packet = struct.pack("!6H", 4660, FLAG_RD, 1, 0, 0, 1 if dnssec else 0) + name_wire(name) + struct.pack("!2H", type_number(qtype), 1)
    if dnssec:
        packet += b"\0" + struct.pack("!HHIH", TYPE_OPT, 1232, 0x8000, 0)
    family = socket.AF_INET6 if ":" in client else socket.AF_INET
    query = make_query(Query, packet, socket.inet_pton(family, client), port, tcp=tcp)
    query._given = Given(metadata or {}, cluster)
    return query


def ask(plugin: Any, name: str, qtype: str = "A", *, below: Below | None = None, **given: Any) -> dns.message.Message:
    """What a plugin answers to one query (further arguments as for `make`). Raises Passed, Dropped or Failed; ValueError for a verdict that is to be
    cached for a scope without the query."""
    return Executor(plugin).ask(name, qtype, below=below, **given)


def configure(corefile: str, directive: str = "", setup: registry.Setup | None = None, *, file: str = "Corefile") -> Any:
    """Set up a Corefile given as text, and return what the set-up of a directive in it returned: its plugin.

    ``directive`` is by default that of the first handler of the first server block. ``setup`` registers it for the time of the call; without it the directive
    must be known, as that of an installed package, or ``plugin FILE.py`` (the directive is the file's name then). All set-ups of the Corefile run, but no
    start-up hook; nothing listens. Raises CorefileError with the text that an operator would read, and LookupError where the directive adds no plugin.

        plugin = configure(". {\\n hello one two\\n}", "hello", setup)
    """
    from fastdns.server.configuration import Configuration
    from fastdns.server.source import Source

    if setup is not None:
        registry.register(directive, setup)
    try:
        configuration = Configuration(Source(corefile.encode(), file), "53")
    finally:
        if setup is not None:
            registry.unregister(directive)
    for config in configuration.configs:
        for handler in config.handlers:
            if handler.name == directive or not directive:
                return handler.plugin if handler.plugin is not None else handler
    raise LookupError(f"no server block has a plugin {directive}")


class Executor:
    """A plugin as a server asks it: a verdict that it has cached is applied to later queries of its scope.

    executor = Executor(Denylist(["ads.example."]))
    executor.ask("a.ads.example.")
    executor.ask("b.ads.example.")
    assert executor.served == 1
    """

    def __init__(self, plugin: Any) -> None:
        self.plugin = plugin
        #: How often the plugin was called.
        self.served = 0
        self._offset = 0
        zones = getattr(plugin, "zones", None)
        self._zones = zones if zones is None or isinstance(zones, NameMap) else ZoneList(list(zones))
        self._verdicts = Verdicts(type(plugin).__name__.lower(), getattr(plugin, "memory", Plugin.memory))
        if isinstance(plugin, Plugin):
            plugin._attach(self._verdicts)

    def advance(self, seconds: float) -> None:
        """Let time go by, for cached verdicts."""
        self._offset += int(seconds * 1e9)

    def ask(self, name: str, qtype: str = "A", *, below: Below | None = None, **given: Any) -> dns.message.Message:
        """What is answered to a query; as `ask`."""
        query = make(name, qtype, **given)
        if self._zones is not None and self._zones.match(query.name) is None:
            return _message(query, PASS, below)
        now = time.monotonic_ns() + self._offset
        result = self._verdicts.find(query, now)
        if result is None:
            self.served += 1
            self._verdicts.begin(query)
            result = _serve(self.plugin, query, below)
        if not isinstance(result, Remembered):
            return _message(query, result, below)
        verdict = result.verdict
        self._verdicts.put(query, result, verdict.to_wire(query) if isinstance(verdict, Reply) else None, now)
        message = _message(query, verdict, below)
        if isinstance(verdict, Reply):
            for rrset in [*message.answer, *message.authority, *message.additional]:
                rrset.ttl = min(rrset.ttl, math.ceil(result.seconds))
        return message


#: The name of `Executor` until 0.1.
Lane = Executor


def _serve(plugin: Any, query: Query, below: Below | None) -> Any:
    if not inspect.iscoroutinefunction(plugin.serve):
        return plugin.serve(query)
    import asyncio

    return asyncio.run(plugin.serve(query, _next(query, below)))


def _message(query: Query, result: Any, below: Below | None) -> dns.message.Message:
    if result is None or result is PASS:
        if below is None:
            raise Passed
        result = _from_below(query, below, query.name, query.qtype)
    if result is DROP:
        raise Dropped
    if isinstance(result, Failure) or (isinstance(result, Answer) and result.message is None):
        raise Failed(result.rcode, result.error)
    if isinstance(result, (bytes, bytearray)):
        wire = bytes(result)
    elif isinstance(result, (Reply, Answer)):
        wire = result.to_wire(query)
    else:
        wire = result.to_wire() if hasattr(result, "to_wire") else bytes(result.pack())
    return dns.message.from_wire(wire, one_rr_per_rrset=True)


def _next(query: Query, below: Below | None) -> Callable[..., Any]:
    async def ask_below(_: Query | None = None, *, name: str | None = None, qtype: int | None = None) -> Answer:
        if below is None:
            return Answer(None, 2, "no next plugin found")
        return _from_below(query, below, query.name if name is None else name, query.qtype if qtype is None else qtype)

    return ask_below


def _from_below(query: Query, below: Below, name: str, qtype: int) -> Answer:
    found = below(name, qtype)
    if found is None:
        return Answer(None, 2, "scripted failure")
    if not isinstance(found, bytes):
        found = query.reply(*found).to_wire(query)
    return Answer(found, flags_rcode(message_flags(found)))


class Case:
    """A question and the answer wanted: records as texts (``OWNER TTL CLASS TYPE RDATA``), in any order."""

    def __init__(
        self,
        name: str,
        qtype: str = "A",
        rcode: str = "NOERROR",
        answer: Sequence[str] = (),
        authority: Sequence[str] = (),
        additional: Sequence[str] = (),
        flags: str | None = None,
    ) -> None:
        self.name = name
        self.qtype = qtype
        self.rcode = rcode
        self.answer = answer
        self.authority = authority
        self.additional = additional
        #: Such as ``"QR AA"``; None is not compared.
        self.flags = flags

    def __repr__(self) -> str:
        return f"{self.name} {self.qtype}"


def check(message: dns.message.Message, case: Case) -> None:
    """Compare an answer with what a case wants. Raises AssertionError that shows both."""
    got: dict[str, Any] = {"rcode": dns.rcode.to_text(message.rcode())}
    wanted: dict[str, Any] = {"rcode": case.rcode}
    if case.flags is not None:
        got["flags"] = dns.flags.to_text(message.flags)
        wanted["flags"] = case.flags
    for section in ("answer", "authority", "additional"):
        got[section] = sorted(line for rrset in getattr(message, section) for line in rrset.to_text().splitlines())
        wanted[section] = sorted(_normal(text) for text in getattr(case, section))
    if got != wanted:
        raise AssertionError(f"{case!r}: wanted {wanted}, got {got}")


def _normal(text: str) -> str:
    owner, ttl, rdclass, rdtype, rdata = text.split(None, 4)
    return dns.rrset.from_text(owner if owner.endswith(".") else owner + ".", int(ttl), rdclass, rdtype, rdata).to_text()


class Upstream:
    """A scripted DNS server on a free loopback port, UDP and TCP: ``with Upstream(answer) as upstream: ... upstream.address``.

    ``answer`` takes the parsed query and gives a message, octets, or None for silence; by default it answers every A query with
    192.0.2.53. ``seen`` holds the queries in the order of their coming.
    """

    def __init__(self, answer: Callable[[dns.message.Message], dns.message.Message | bytes | None] | None = None) -> None:
        self.answer = answer or _default_answer
        self.seen: list[dns.message.Message] = []
        self._stopping = False

    def __enter__(self) -> Upstream:
        while True:
            self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._udp.bind(("127.0.0.1", 0))
            self.port: int = self._udp.getsockname()[1]
            self._tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                self._tcp.bind(("127.0.0.1", self.port))
                break
            except OSError:
                self._udp.close()
                self._tcp.close()
        self._tcp.listen(16)
        self.address = f"127.0.0.1:{self.port}"
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._serve_udp, self._serve_tcp)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping = True
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wake:
            wake.sendto(b"", ("127.0.0.1", self.port))
        self._tcp.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        self._udp.close()
        self._tcp.close()

    def _reply(self, octets: bytes) -> bytes | None:
        try:
            query = dns.message.from_wire(octets)
        except dns.exception.DNSException:  # a server hands on what it does not look into
            return None
        self.seen.append(query)
        reply = self.answer(query)
        return reply.to_wire(max_size=65535) if isinstance(reply, dns.message.Message) else reply

    def _serve_udp(self) -> None:
        while not self._stopping:
            octets, client = self._udp.recvfrom(65535)
            reply = self._reply(octets) if octets else None
            if reply is not None:
                self._udp.sendto(reply, client)

    def _serve_tcp(self) -> None:
        while not self._stopping:
            try:
                connection, _ = self._tcp.accept()
            except OSError:
                return
            threading.Thread(target=self._serve_connection, args=(connection,), daemon=True).start()

    def _serve_connection(self, connection: socket.socket) -> None:
        with contextlib.suppress(ConnectionError), connection, connection.makefile("rb") as stream:
            while True:
                head = stream.read(2)
                if len(head) < 2:
                    return
                reply = self._reply(stream.read(struct.unpack("!H", head)[0]))
                if reply is not None:
                    connection.sendall(struct.pack("!H", len(reply)) + reply)


def _default_answer(query: dns.message.Message) -> dns.message.Message:
    reply = dns.message.make_response(query, recursion_available=True)
    if query.question[0].rdtype == TYPE_A:
        reply.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", "192.0.2.53"))
    return reply
