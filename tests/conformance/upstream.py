"""Scripted upstream DNS servers: UDP, TCP and optionally TLS on one loopback port.

A server is described by a mapping:

    records: ['name ttl type rdata', ...]   answers by name and type. CNAMEs are followed; a name without the type gives no data,
                                            an absent name NXDOMAIN, both with `soa` if given
    soa: 'name ttl SOA ...'
    rules: [{...}, ...]                     tried before the records, the first match counts:
        q: 'NAME TYPE' (`*` matches all, `*.zone.` what is below), via: udp|tcp, times: N (only the first N matches)
        rcode, flags ('aa ra ad ...'), answer, authority, additional: [...], delay: seconds, drop: true,
        tc: true (over UDP: empty and truncated), wrong_id: true, wrong_question: NAME, close: true (TCP: close without a reply),
        garbage: hex, edns: none|'udp=N', ede: 'CODE TEXT', copy_edns: true,
        case: upper|lower|swap (letters of the question and of answers with its name), opcode: NAME,
        patch: {OFFSET: hex}, cut: N (octets kept; negative: dropped), tail: hex (changes of the finished reply, in this order),
        before: [rules of replies sent first], after_close: true (TCP: close after the reply)
    host: ADDRESS, port: N                  where to listen, in place of 127.0.0.1 and a free port
    tls: true                               TLS over TCP on the port, no plain DNS
    down: true                              nothing listens, until a step changes it
"""

from __future__ import annotations

import errno
import fnmatch
import socket
import ssl
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rdataclass
import dns.rdatatype

from tests.conformance.records import describe_edns
from tests.conformance.replies import Rule, build_reply, rule_from_records
from tests.conformance.transports import framed

__all__ = ["Upstream"]


class Upstream:
    """One server, with a record of what it received. ``certificates`` is a folder with server.pem and server.key."""

    def __init__(self, port: int, description: dict[str, Any], certificates: Path) -> None:
        self.port, self.certificates = port, certificates
        self.description = dict(description)
        self.lock = threading.Lock()
        #: One line for each query, health checks excepted; the ids and ports they came with; and how many health checks.
        self.queries: list[str] = []
        self.ids: set[int] = set()
        self.ports: set[tuple[str, int]] = set()
        self.health_checks = 0
        self.tcp_accepted = 0
        self._matches: Counter[int] = Counter()
        self._listeners: list[socket.socket] = []
        self._connections: set[socket.socket] = set()
        if not self.description.get("down"):
            self._listen()

    def configure(self, changes: dict[str, Any]) -> None:
        with self.lock:
            was_down = bool(self.description.get("down"))
            self.description.update(changes)
            self._matches.clear()
            down = bool(self.description.get("down"))
        if was_down and not down:
            self._listen()
        if down and not was_down:
            self.stop()

    def forget(self) -> None:
        with self.lock:
            self.queries.clear()
            self.ids.clear()
            self.ports.clear()
            self.health_checks = 0

    def stop(self) -> None:
        for each in [*self._listeners, *self._connections]:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()
        self._listeners = []

    # ---- sockets ----

    def _listen(self) -> None:
        end = time.monotonic() + 2  # sockets closed a moment ago may still hold the port
        while True:
            try:
                return self._bind()
            except OSError as error:
                if error.errno != errno.EADDRINUSE or time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def _bind(self) -> None:
        host = self.description.get("host", "127.0.0.1")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        datagrams = socket.socket(family, socket.SOCK_DGRAM)
        self._listeners = [datagrams]
        datagrams.bind((host, self.port))
        listener = socket.socket(family, socket.SOCK_STREAM)
        self._listeners.append(listener)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, self.port))
        listener.listen(64)
        if not self.description.get("tls"):
            start(self._receive, datagrams)
        start(self._accept, listener)

    def _receive(self, datagrams: socket.socket) -> None:
        while True:
            try:
                data, peer = datagrams.recvfrom(65535)
            except OSError:
                return
            if not data:
                return
            start(self._reply_by_udp, datagrams, data, peer)

    def _reply_by_udp(self, datagrams: socket.socket, data: bytes, peer: Any) -> None:
        for reply in self.replies(data, "udp", peer)[0] or []:
            try:
                datagrams.sendto(reply, peer)
            except OSError:
                pass

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, peer = listener.accept()
            except OSError:
                return
            self.tcp_accepted += 1
            start(self._serve, connection, peer)

    def _serve(self, connection: socket.socket, peer: Any) -> None:
        self._connections.add(connection)
        accepted = connection
        try:
            if self.description.get("tls"):
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self.certificates / "server.pem", self.certificates / "server.key")
                connection = context.wrap_socket(connection, server_side=True)
            via = "tls" if self.description.get("tls") else "tcp"
            with connection.makefile("rb") as stream:
                while len(head := stream.read(2)) == 2:
                    replies, close = self.replies(stream.read(int.from_bytes(head, "big")), via, peer)
                    for reply in replies:
                        connection.sendall(framed(reply))
                    if close:
                        return
        except (OSError, ValueError):
            pass  # the client or stop() has closed the connection
        finally:
            self._connections.discard(accepted)
            connection.close()

    # ---- answers ----

    def replies(self, data: bytes, via: str, peer: Any) -> tuple[list[bytes], bool]:
        """The replies to a message, and whether a connection is to be closed after them."""
        try:
            query = dns.message.from_wire(data, ignore_trailing=True)
        except (dns.exception.DNSException, ValueError):
            self.queries.append(f"unparseable {data.hex()}")
            return [], False
        if not query.question:
            return [], False
        with self.lock:
            self._record(query, via, peer)
            rule = self._matching_rule(query, via)
            delay = (rule or self.description).get("delay", 0)
        if delay:
            time.sleep(delay)
        if rule is None:
            rule = rule_from_records(self.description, query)
        if rule.get("close") and not rule.get("drop"):
            return [], True
        built = [] if rule.get("drop") else [build_reply(rule, query, via)]
        built = [build_reply(first, query, via) for first in rule.get("before", ())] + built
        return [reply for reply in built if reply], bool(rule.get("after_close"))

    def _record(self, query: dns.message.Message, via: str, peer: Any) -> None:
        """Health checks (``. NS``) are counted apart, HINFO (the probe of *loop*) not at all."""
        question = query.question[0]
        if question.rdtype == dns.rdatatype.HINFO:
            return
        if question.rdtype == dns.rdatatype.NS and question.name == dns.name.root:
            self.health_checks += 1
            return
        self.ids.add(query.id)
        self.ports.add((via, peer[1]))
        words = [
            question.name.to_text(),
            dns.rdataclass.to_text(question.rdclass),
            dns.rdatatype.to_text(question.rdtype),
            via,
            dns.opcode.to_text(query.opcode()) if query.opcode() else "",
            f"src={peer[0]}" if peer[0] not in ("127.0.0.1", "::1") else "",
            dns.flags.to_text(query.flags).lower(),
            describe_edns(query),
        ]
        self.queries.append(" ".join(filter(None, words)))

    def _matching_rule(self, query: dns.message.Message, via: str) -> Rule | None:
        for rule in self.description.get("rules", ()):
            if matches(rule, query, via):
                if "times" in rule and self._matches[id(rule)] >= rule["times"]:
                    continue
                self._matches[id(rule)] += 1
                found: Rule = rule
                return found
        return None


def matches(rule: Rule, query: dns.message.Message, via: str) -> bool:
    name, _, rdtype = rule.get("q", "*").partition(" ")
    question = query.question[0]
    if rule.get("via", via) != via:
        return False
    if rdtype.strip() not in ("", "*") and rdtype.strip().upper() != dns.rdatatype.to_text(question.rdtype):
        return False
    return fnmatch.fnmatchcase(question.name.to_text().lower(), name.lower())


def start(function: Any, *arguments: Any) -> None:
    threading.Thread(target=function, args=arguments, daemon=True).start()
