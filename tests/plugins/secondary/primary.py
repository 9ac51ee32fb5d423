"""A primary that does what a test wants: serves versions of a zone, whole or as differences, signed or not, and misbehaves."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.renderer
import dns.rrset
import dns.zone

Messages = Iterator[dns.message.Message | bytes | None]
#: From a request to messages (None: the connection is closed); None: what a primary should do.
Script = Callable[["Primary", dns.message.Message], Messages | None]


class Primary(socketserver.ThreadingTCPServer):
    """Versions are texts of master files with their SOA; the last one is current."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *versions: str, origin: str = "example.org.", port: int = 0) -> None:
        self.origin = dns.name.from_text(origin)
        self.versions = [dns.zone.from_text(text, origin=self.origin, relativize=False, check_origin=False) for text in versions]
        self.script: Script | None = None
        self.differences = True
        self.keyring: Any = None
        #: Types asked for, in order.
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", port), Handler)
        self.port: int = self.server_address[1]
        self.address = f"127.0.0.1:{self.port}"
        #: All that were accepted, in order.
        self.connections: list[socket.socket] = []
        #: One of them has ended.
        self.ended = threading.Event()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self.disconnect()

    def disconnect(self) -> None:
        """End all connections."""
        for one in list(self.connections):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def add(self, text: str) -> None:
        self.versions.append(dns.zone.from_text(text, origin=self.origin, relativize=False, check_origin=False))

    def notify(self, port: int, source: str = "127.0.0.1") -> dns.message.Message | None:
        """Sends a NOTIFY; the reply, or None when there is none for a second."""
        import dns.opcode
        import dns.query

        request = dns.message.make_query(self.origin, "SOA", flags=dns.flags.AA)
        request.set_opcode(dns.opcode.NOTIFY)
        try:
            return dns.query.udp(request, "127.0.0.1", port=port, source=source, timeout=1)
        except dns.exception.Timeout:
            return None

    def soa(self, version: int = -1) -> dns.rrset.RRset:
        zone = self.versions[version]
        return zone.get_rrset(self.origin, "SOA") or dns.rrset.RRset(self.origin, 1, 6)

    def serial(self, version: int = -1) -> int:
        return int(self.soa(version)[0].serial)

    def records(self, version: int = -1) -> list[dns.rrset.RRset]:
        """All records but the SOA, one a set."""
        out = []
        for name, ttl, rdata in self.versions[version].iterate_rdatas():
            if rdata.rdtype != dns.rdatatype.SOA:
                out.append(dns.rrset.from_rdata(name, ttl, rdata))
        return out

    def answer(self, request: dns.message.Message) -> Messages:
        kind = request.question[0].rdtype
        if kind == dns.rdatatype.SOA:
            yield self.reply(request, [self.soa()])
        elif kind == dns.rdatatype.AXFR or not self.differences:
            yield from self.whole(request)
        else:
            yield from self.since(request, int(request.authority[0][0].serial))

    def whole(self, request: dns.message.Message) -> Messages:
        records = self.records()
        yield self.reply(request, [self.soa(), *records[:3]])
        for at in range(3, len(records), 50):
            yield self.reply(request, records[at : at + 50])
        yield self.reply(request, [self.soa()])

    def since(self, request: dns.message.Message, serial: int) -> Messages:
        known = [at for at in range(len(self.versions)) if self.serial(at) == serial]
        if not known:
            yield from self.whole(request)
            return
        out = [self.soa()]
        for at in range(known[0], len(self.versions) - 1):
            old, new = ({(one.name, one[0]): one for one in self.records(version)} for version in (at, at + 1))
            out += [self.soa(at), *(old[key] for key in old.keys() - new.keys()), self.soa(at + 1), *(new[key] for key in new.keys() - old.keys())]
        if known[0] < len(self.versions) - 1:
            out.append(self.soa())
        yield self.reply(request, out)

    def reply(self, request: dns.message.Message, records: list[dns.rrset.RRset], rcode: int = 0) -> dns.message.Message:
        message = dns.message.make_response(request)
        message.flags |= dns.flags.AA
        message.set_rcode(dns.rcode.Rcode.make(rcode))
        message.answer = list(records)
        return message


class Handler(socketserver.BaseRequestHandler):
    server: Primary

    def setup(self) -> None:
        self.server.connections.append(self.request)

    def finish(self) -> None:
        self.server.ended.set()

    def handle(self) -> None:
        try:
            while True:
                length = self.read(2)
                request = dns.message.from_wire(self.read(struct.unpack(">H", length)[0]), keyring=self.server.keyring)
                self.server.asked.append(dns.rdatatype.to_text(request.question[0].rdtype))
                messages = self.server.script(self.server, request) if self.server.script is not None else None
                if not self.give(request, messages if messages is not None else self.server.answer(request)):
                    return
        except (OSError, EOFError):
            return

    def give(self, request: dns.message.Message, messages: Messages) -> bool:
        context = None
        for message in messages:
            if message is None:
                return False
            if isinstance(message, dns.message.Message):
                if request.had_tsig:
                    message.use_tsig(self.server.keyring)
                    message.request_mac = request.mac
                wire = message.to_wire(max_size=65535, multi=True, tsig_ctx=context)
                context = message.tsig_ctx
            else:
                wire = message
            self.request.sendall(struct.pack(">H", len(wire)) + wire)
        return True

    def read(self, length: int) -> bytes:
        out = b""
        while len(out) < length:
            got = self.request.recv(length - len(out))
            if not got:
                raise EOFError
            out += got
        return out
