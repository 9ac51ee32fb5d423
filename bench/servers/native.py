"""The floors: the least that answering and forwarding cost on kernel sockets. Run as a module it is their process."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from fastdns.bench.servers import floor, relay
from fastdns.bench.servers.adapter import Adapter, Listen, Work

#: Sockets to the upstream of a relay.
UPSTREAM_SOCKETS = 16
RECEIVE_BUFFER = 4 << 20
IPV6_RECVPKTINFO = getattr(socket, "IPV6_RECVPKTINFO", 49)


class Native(Adapter):
    """A native loop of this package, in a Python process that does nothing else."""

    transports = frozenset(["udp"])
    reference = True

    def executable(self) -> str:
        return sys.executable

    def start(self, *arguments: object) -> list[str]:
        return [sys.executable, "-P", "-m", __name__, self.name, *map(str, arguments)]


class Floor(Native):
    """Answers everything with one fixed record (see floor). Bound to 127.0.0.1, or a wildcard socket that answers from the address asked."""

    name = "floor"

    def __init__(self, path: str = "", ttl: int = 5) -> None:
        super().__init__(path)
        self.ttl = ttl

    def refuses(self, work: Work) -> str:
        return ""

    def command(self, work: Work, listen: Listen, folder: Path) -> list[str]:
        return self.start("--port", listen.port, "--ttl", self.ttl, "--threads", listen.workers, *(["--wildcard"] if listen.wildcard else []))


class Relay(Native):
    """Passes everything to the upstream and back (see relay); bound to 127.0.0.1, with one thread, whatever is asked for."""

    name = "relay"

    def refuses(self, work: Work) -> str:
        return "" if work.upstream else "has nothing to relay to in this work"

    def command(self, work: Work, listen: Listen, folder: Path) -> list[str]:
        return self.start("--port", listen.port, "--upstream", work.upstream)


# ---- the process ----


def listening(port: int, wildcard: bool) -> socket.socket:
    """A UDP socket; the wildcard one takes both families and hands out PKTINFO."""
    sock = socket.socket(socket.AF_INET6 if wildcard else socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    if wildcard:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
    sock.bind(("::" if wildcard else "127.0.0.1", port))
    return sock


def floors(arguments: argparse.Namespace) -> list[Callable[[], object]]:
    sockets = [listening(arguments.port, arguments.wildcard).detach() for _ in range(arguments.threads)]
    return [lambda fd=fd: floor.serve(fd, arguments.wildcard, arguments.ttl) for fd in sockets]  # type: ignore[misc]


def relays(arguments: argparse.Namespace) -> list[Callable[[], object]]:
    front = listening(arguments.port, wildcard=False)
    upstreams = []
    for _ in range(UPSTREAM_SOCKETS):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.connect(("127.0.0.1", arguments.upstream))
        upstreams.append(sock)
    for sock in upstreams:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    for sock in (front, *upstreams):
        sock.setblocking(False)
    descriptors = [sock.detach() for sock in upstreams]
    asked = front.detach()
    return [lambda: relay.relay(asked, descriptors)]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog=__name__)
    parser.add_argument("kind", choices=("floor", "relay"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--wildcard", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ttl", type=int, default=5)
    parser.add_argument("--upstream", type=int)
    given = parser.parse_args(arguments)
    loops = floors(given) if given.kind == "floor" else relays(given)
    ends = (signal.SIGTERM, signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    for loop in loops:
        threading.Thread(target=run, args=(loop,), daemon=True).start()
    signal.sigwait(ends)
    return 0


def run(loop: Callable[[], object]) -> None:
    """A loop ends only by an error, and the process with it: a server that answers with fewer threads would be measured wrongly."""
    try:
        loop()
    except OSError as error:
        print(f"{__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
