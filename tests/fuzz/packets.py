"""Throws mutated packets at a running server, over UDP and TCP, and mutated replies at it from its upstream.

    python -m tests.fuzz.packets [NUMBER [SEED]]        or: make fuzz PACKETS=1000000

The server is $FASTDNS_BIN (see tests.server). In the end it must still answer right, have logged in printable lines, end with status 0
and have left no report of a sanitizer.
"""

from __future__ import annotations

import random
import re
import select
import socket
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path

from fastdns._wire import name_wire, records
from tests.server import Server
from tests.waiting import LIMIT

COREFILE = """
.:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    errors
    log
    loadbalance
    cache 30 {
        serve_stale 10s
        prefetch 2 1s 10%
    }
    hosts {
        192.0.2.1 www.example.org
        192.0.2.2 www.example.org
        2001:db8::1 www.example.org
        ttl 5
        fallthrough
    }
    kubernetes cluster.local in-addr.arpa {
        manifests {dir}/cluster.yaml
        pods insecure
        fallthrough in-addr.arpa
        ttl 1
    }
    forward . 127.0.0.1:{port3} 127.0.0.1:{port4} {
        max_concurrent 500
        read_timeout 300ms
        health_check 10s
    }
}
"""
PLUGINS = ("prometheus", "errors", "log", "loadbalance", "cache", "hosts", "kubernetes", "forward")

CLUSTER = """
{kind: Service, metadata: {name: web, namespace: default}, spec: {clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10],
  ports: [{name: http, port: 80, protocol: TCP}]}}
---
{kind: Service, metadata: {name: db, namespace: default}, spec: {clusterIP: None, clusterIPs: [None], ports: [{name: sql, port: 5432, protocol: TCP}]}}
---
{kind: EndpointSlice, apiVersion: discovery.k8s.io/v1, addressType: IPv4,
 metadata: {name: db-1, namespace: default, labels: {kubernetes.io/service-name: db}},
 ports: [{name: sql, port: 5432, protocol: TCP}],
 endpoints: [{addresses: [10.1.0.1], hostname: db-0}, {addresses: [10.1.0.2]}, {addresses: [10.1.0.3]}]}
---
{kind: Namespace, metadata: {name: default}}
"""

NAMES = ["www.example.org.", "web.default.svc.cluster.local.", "db.default.svc.cluster.local.", "_sql._tcp.db.default.svc.cluster.local."]
NAMES += ["db-0.db.default.svc.cluster.local.", "1-2-3-4.default.pod.cluster.local.", "10.0.96.10.in-addr.arpa.", "dns-version.cluster.local."]
NAMES += ["good.test.", "bad.test.", "nx.cluster.local.", ".", "cluster.local.", "a." * 127, "\\000\\255%s.test.", ("x" * 63 + ".") * 3 + "test."]
TYPES = [1, 28, 33, 12, 16, 6, 2, 255, 65, 43, 251, 252, 41, 249, 250, 0, 65535, 5, 15]
EDGES = [0, 1, 2, 11, 12, 41, 63, 64, 128, 191, 192, 250, 255, 512, 0x3FFF, 0xC000, 0xC00C, 0xC0FF, 0xFFFF]


# ---- packets ----


def query(source: random.Random) -> bytes:
    """A query of any kind, most of them well-formed."""
    name = name_wire(source.choice(NAMES)) if source.random() < 0.8 else name_wire(f"{source.choice(['good', 'bad'])}.{source.randrange(500)}.test.")
    if source.random() < 0.2:
        name = bytes(octet ^ 0x20 if 0x61 <= octet <= 0x7A and source.random() < 0.5 else octet for octet in name)
    flags = source.choice([0x0100, 0x0100, 0x0100, 0x0000, 0x0120, 0x0110, 0x2000, 0x2800, 0x8100, 0x7800, source.randrange(65536)])
    counts = [1, 0, 0, 0]
    rest = b""
    kind = source.choice(TYPES)
    if kind == 251:  # IXFR carries a SOA
        counts[2] = 1
        rest += b"\xc0\x0c" + struct.pack("!HHIH", 6, 1, 0, 22) + b"\0\0" + bytes(20)
    if source.random() < 0.5:
        counts[3] += 1
        options = b""
        for _ in range(source.choice([0, 0, 1, 3, 30])):
            octets = source.randbytes(source.choice([0, 1, 8, 16, 40]))
            options += struct.pack("!HH", source.choice([3, 8, 9, 10, 11, 12, 15, 65001]), len(octets)) + octets
        version = 1 if source.random() < 0.05 else 0
        opt = struct.pack("!HHBBHH", 41, source.choice([0, 512, 1232, 4096, 65535]), 0, version, source.choice([0, 0x8000, 0xFFFF]), len(options))
        rest += b"\0" + opt + options
    if source.random() < 0.05:
        counts[3] += 1
        mac = name_wire("hmac-sha256.") + struct.pack("!HIHH", 0, 1, 300, 32) + source.randbytes(32) + struct.pack("!HHH", 0, 0, 0)
        rest += name_wire("key.") + struct.pack("!HHIH", 250, 255, 0, len(mac)) + mac
    if source.random() < 0.03:
        counts[source.randrange(4)] = source.choice(EDGES)
    head = struct.pack("!6H", source.randrange(65536), flags, *counts)
    return head + name + struct.pack("!HH", kind, source.choice([1, 1, 1, 1, 3, 255, 254, 0])) + rest


def mutated(source: random.Random, octets: bytes) -> bytes:
    """The same with a few octets changed, cut, doubled or inserted."""
    data = bytearray(octets)
    for _ in range(source.choice([1, 1, 1, 2, 4, 10])):
        at = source.randrange(len(data) or 1)
        kind = source.randrange(6)
        if kind == 0 and data:
            data[at] = source.randrange(256)
        elif kind == 1:
            data[at : at + 2] = struct.pack("!H", source.choice(EDGES))
        elif kind == 2:
            del data[at : at + source.randrange(1, 12)]
        elif kind == 3:
            data[at:at] = data[source.randrange(len(data) or 1) :][: source.randrange(1, 60)]
        elif kind == 4:
            data[at:at] = source.randbytes(source.randrange(1, 20))
        else:
            del data[at:]
    return bytes(data[:4000])


def packet(source: random.Random) -> bytes:
    chance = source.random()
    if chance < 0.3:
        return query(source)
    if chance < 0.97:
        return mutated(source, query(source))
    return source.randbytes(source.choice([0, 1, 2, 11, 12, 13, 17, 100, 512, 513, 1500, 4000]))


# ---- the upstream ----


class Upstream:
    """Answers `good` names right, and others with anything: mutated, foreign, doubled, cut or no reply."""

    def __init__(self, port: int, seed: int) -> None:
        self.source = random.Random(seed)
        self.sockets = [socket.socket(socket.AF_INET, kind) for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM)]
        for sock in self.sockets:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", port))
        self.sockets[1].listen(64)
        for run in (self.serve_udp, self.serve_tcp):
            threading.Thread(target=run, daemon=True).start()

    def replies(self, request: bytes) -> list[bytes]:
        source = self.source
        end = request.find(b"\0", 12) + 5
        question = request[12:end]
        if len(request) < 17 or b"good" in question.lower():
            address = b"\xc0\x0c" + struct.pack("!HHIH4s", 1, 1, 3, 4, bytes([192, 0, 2, 53])) if question[-4:] == b"\0\1\0\1" else b""
            return [request[:2] + struct.pack("!5H", 0x8180, 1, 1 if address else 0, 0, 0) + question + address]
        counts = [1, source.choice([0, 1, 25, 70]), source.choice([0, 1]), source.choice([0, 1])]
        reply = request[:2] + struct.pack("!5H", 0x8180 | source.choice([0, 0, 0x200, 2, 3, 5]), *counts) + question
        for _ in range(counts[1]):
            kind = source.choice([1, 5, 16, 15, 33, 46])
            rdata = {1: b"\1\2\3\4", 5: b"\1a\xc0\x0c", 16: b"\3abc", 15: b"\0\1\xc0\x0c", 33: b"\0\0\0\0\0\1\xc0\x0c", 46: bytes(18) + b"\xc0\x0c" + bytes(9)}[
                kind
            ]
            reply += (
                source.choice([b"\xc0\x0c", b"\0", b"\1b\xc0\x0c"]) + struct.pack("!HHIH", kind, 1, source.choice([0, 1, 2**31, 2**32 - 1]), len(rdata)) + rdata
            )
        if counts[2]:
            reply += b"\0" + struct.pack("!HHIH", 6, 1, 1, 22) + b"\0\0" + bytes(20)
        if counts[3]:
            reply += b"\0" + struct.pack("!HHIH", 41, 1232, source.choice([0, 0x8000, 1 << 24]), 0)
        found = [mutated(source, reply) if source.random() < 0.6 else reply for _ in range(source.choice([0, 1, 1, 1, 2, 3]))]
        if source.random() < 0.2:
            found.append(source.randbytes(source.randrange(60)))
        return found

    def serve_udp(self) -> None:
        while True:
            request, peer = self.sockets[0].recvfrom(65535)
            for reply in self.replies(request):
                self.sockets[0].sendto(reply, peer)

    def serve_tcp(self) -> None:
        while True:
            connection, _ = self.sockets[1].accept()
            threading.Thread(target=self.serve_connection, args=(connection,), daemon=True).start()

    def serve_connection(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            try:
                while len(head := stream.read(2)) == 2:
                    for reply in self.replies(stream.read(struct.unpack("!H", head)[0])):
                        size = len(reply) if self.source.random() < 0.98 else self.source.choice(EDGES)
                        connection.sendall(struct.pack("!H", size) + reply)
                    if self.source.random() < 0.05:
                        return
            except OSError:
                pass


# ---- clients ----

SENTINEL = struct.pack("!6H", 0x5E17, 0x0100, 1, 0, 0, 0) + name_wire("www.example.org.") + b"\0\1\0\1"


def check(reply: bytes) -> None:
    """A reply is a message, whatever was asked."""
    assert len(reply) >= 12, reply
    assert reply[2] & 0x80, reply
    try:
        found = records(reply)
    except ValueError as error:
        raise AssertionError(f"{error}: {reply.hex()}") from error
    assert len(found) == sum(struct.unpack("!3H", reply[6:12])), reply.hex()


def is_sentinel(reply: bytes) -> bool:
    return reply[:2] == SENTINEL[:2] and reply[12 : len(SENTINEL)] == SENTINEL[12:] and struct.unpack("!H", reply[6:8])[0] == 2


def throw_datagrams(sock: socket.socket, packets: list[bytes]) -> int:
    """Sends packets and then a right query until that is answered; the number of replies."""
    seen = 0
    for octets in packets:
        sock.send(octets)
    for _ in range(int(LIMIT)):
        sock.send(SENTINEL)
        while select.select([sock], [], [], 1.0)[0]:
            reply = sock.recv(65535)
            check(reply)
            seen += 1
            if is_sentinel(reply):
                return seen
    raise AssertionError("the server does not answer any more")


def throw_stream(source: random.Random, port: int, packets: list[bytes]) -> int:
    """Sends packets over a connection, pipelined and chopped; the number of replies."""
    sound = source.random() < 0.7
    stream = b"".join(struct.pack("!H", len(octets) if sound or source.random() < 0.9 else source.choice(EDGES)) + octets for octets in packets)
    if sound:
        stream += struct.pack("!H", len(SENTINEL)) + SENTINEL
    seen = 0
    with socket.create_connection(("127.0.0.1", port), LIMIT) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while stream:
                size = source.choice([1, 2, 3, 100, 1000, 5000, len(stream)])
                sock.sendall(stream[:size])
                stream = stream[size:]
            if not sound:
                if source.random() < 0.5:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return 0
                sock.shutdown(socket.SHUT_WR)
            with sock.makefile("rb") as file:
                while len(head := file.read(2)) == 2:
                    reply = file.read(struct.unpack("!H", head)[0])
                    check(reply)
                    seen += 1
                    if is_sentinel(reply):
                        return seen
        except (ConnectionError, TimeoutError):
            assert not sound, "the server hung up on a sound stream"
    assert not sound, "the server did not answer the last query of a sound stream"
    return seen


def fuzz(folder: Path, number: int, seed: int) -> str:
    """Throws ``number`` packets. Raises AssertionError; returns a summary."""
    source = random.Random(seed)
    (folder / "cluster.yaml").write_text(CLUSTER)
    server = Server(folder, COREFILE)
    sent = replies = 0
    start = time.monotonic()
    try:
        server.wait_started()
        for name in ("port3", "port4"):
            Upstream(server.ports[name], seed)
        while sent < number:
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.connect(("127.0.0.1", server.port))
            for _ in range(20):
                replies += throw_datagrams(sock, [packet(source) for _ in range(100)])
                sent += 100
            sock.close()
            replies += throw_stream(source, server.port, [packet(source) for _ in range(source.choice([1, 10, 50, 200]))])
            sent += 50
            assert server.process.poll() is None, f"the server ended with {server.process.returncode}"
        time.sleep(1)
        judge(server)
    finally:
        status = server.stop()
        reports = re.search(r"AddressSanitizer|runtime error:|LeakSanitizer|Segmentation|Traceback", server.log())
        assert not reports, server.log()[max(0, reports.start() - 500) :][:8000]
    assert status == 0, f"the server ended with {status}"
    unprintable = re.search(r"[^\x20-\x7e\n]", server.log())
    assert not unprintable, repr(server.log()[max(0, unprintable.start() - 200) :][:300])
    return f"{sent} packets, {replies} replies in {time.monotonic() - start:.0f} s"


def judge(server: Server) -> None:
    """Whatever it went through, it answers right."""
    for tcp in (False, True):
        assert server.answers("www.example.org.", tcp=tcp) == ["192.0.2.1", "192.0.2.2"]
        assert server.answers("web.default.svc.cluster.local.", tcp=tcp) == ["10.96.0.10"]
        assert server.answers("db.default.svc.cluster.local.", tcp=tcp) == ["10.1.0.1", "10.1.0.2", "10.1.0.3"]
        assert server.answers("nothing.default.svc.cluster.local.", tcp=tcp) == ["NXDOMAIN"]
        server.until(f"good.{tcp}.last.test.", "A", ["192.0.2.53"], tcp=tcp)
    page = server.get(server.ports["port2"], "/metrics")
    assert sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith("coredns_dns_requests_total")) > 100


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(fuzz(Path(place), int(sys.argv[1]) if len(sys.argv) > 1 else 20000, int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())))
