"""A paced load in a process of its own that checks every answer: ``python -m tests.load PORT RATE SECONDS [NAME [WINDOW [PROGRESS [BEHIND [HOST]]]]]``.

Asks for addresses of NAME over UDP at RATE queries a second until SECONDS are over or its standard input ends, and prints one JSON line:
sent, lost (no answer within ten seconds of the last query), drops (of the kernel, for full sockets), wrong (rcode, question, or an address that is older
than one seen before the question was asked), late (answered after more than 100 ms), p50, p99 and p999 in microseconds.
Answers are 10.x.y.z, whose last three octets count upwards with each configuration, or with each version of a zone. A zone's answers also name its server,
whose first label is ns and the same number.

With a WINDOW no more than so many queries are unanswered at a time, whatever the rate: a machine that is too slow for it loses none. PROGRESS is a descriptor
of a file that tells how many were answered and the newest number seen. An answer may be BEHIND versions older than what was seen before (2).
HOST is the server's address (127.0.0.1).
"""

from __future__ import annotations

import gc
import json
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastdns._wire import name_wire

ROOT = Path(__file__).resolve().parent.parent
SOCKETS = 4
#: Seconds between two bursts.
TICK = 0.002
TIMESTAMP = 35  # SO_TIMESTAMPNS
PROGRESS = struct.Struct("QQ")


class Load:
    """Runs in another process; `result` waits for it."""

    def __init__(
        self,
        port: int,
        rate: int,
        seconds: float,
        name: str = "www.example.org.",
        window: int = 0,
        behind: int = 2,
        host: str = "127.0.0.1",
        start: Callable[..., subprocess.Popen[str]] = subprocess.Popen,
    ) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 - until the load ends
        self.file.write(bytes(PROGRESS.size))
        self.file.flush()
        progress = self.file.fileno()
        command = [sys.executable, "-m", "tests.load", *map(str, (port, rate, seconds, name, window, progress, behind, host))]
        self.process = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, pass_fds=[progress])

    @property
    def answered(self) -> int:
        """Queries answered so far."""
        count: int = PROGRESS.unpack(os.pread(self.file.fileno(), PROGRESS.size, 0))[0]
        return count

    @property
    def newest(self) -> int:
        """The newest configuration that has answered."""
        number: int = PROGRESS.unpack(os.pread(self.file.fileno(), PROGRESS.size, 0))[1]
        return number

    def result(self) -> dict[str, Any]:
        """Ends the load if its time is not over."""
        found: dict[str, Any] = json.loads(self.process.communicate(timeout=60)[0])
        self.file.close()
        return found

    def wait(self) -> dict[str, Any]:
        """Waits until its time is over."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.process.communicate()
        self.file.close()
        found: dict[str, Any] = json.loads(line)
        return found


def generation(reply: bytes, question: bytes) -> int:
    """The number in the address; -1 when the reply is not what was asked for."""
    end = 12 + len(question)
    if len(reply) < end + 16 or reply[2] & 0xF8 != 0x80 or reply[3] & 15 or reply[12:end] != question or reply[6:8] != b"\0\1":
        return -1
    address = reply[end + 12 : end + 16]
    number = int.from_bytes(address[1:], "big")
    if reply[8:10] != b"\0\0":
        label = b"ns%d" % number
        if bytes([len(label)]) + label not in reply[end + 16 :]:
            return -1
    return number if address[0] == 10 else -1


def run(port: int, rate: int, seconds: float, name: str, window: int = 0, progress: int = -1, behind: int = 2, host: str = "127.0.0.1") -> dict[str, Any]:
    gc.disable()
    most = window // SOCKETS if window else 65536
    question = name_wire(name) + b"\0\1\0\1"
    tail = struct.pack("!5H", 0x0100, 1, 0, 0, 0) + question
    sockets = []
    for _ in range(SOCKETS):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.setsockopt(socket.SOL_SOCKET, TIMESTAMP, 1)
        sock.connect((host, port))
        sock.setblocking(False)
        sockets.append(sock)
    under_way: list[dict[int, tuple[int, int]]] = [{} for _ in sockets]
    taken: list[int] = []
    sent = wrong = newest = number = 0
    space = socket.CMSG_SPACE(16)
    start = time.monotonic()
    end = start + seconds
    quiet = 0.0
    while True:
        now = time.monotonic()
        stopping = now >= end or bool(select.select([sys.stdin], [], [], 0)[0])
        if not stopping:
            while sent < (now - start) * rate and len(under_way[(number + 1) % SOCKETS]) < most:
                number += 1
                which, key = number % SOCKETS, number // SOCKETS & 0xFFFF
                under_way[which][key] = time.time_ns(), newest
                # Refused or unreachable, it counts as lost.
                with suppress(OSError):
                    sockets[which].send(key.to_bytes(2, "big") + tail)
                sent += 1
        else:
            quiet = quiet or now
            if now - quiet > 10 or not any(under_way):
                break
        wait = TICK
        while ready := select.select(sockets, [], [], wait)[0]:
            wait = 0
            for sock in ready:
                try:
                    reply, ancillary, _, _ = sock.recvmsg(4096, space)
                except ConnectionError:
                    continue
                began, oldest = under_way[sockets.index(sock)].pop(int.from_bytes(reply[:2], "big"), (0, 0))
                found = generation(reply, question)
                # Configurations: two workers change over one after the other, each between two batches.
                if found < max(0, oldest - behind) or not began:
                    wrong += 1
                newest = max(newest, found)
                if began:
                    whole, part = struct.unpack("qq", ancillary[0][2])
                    taken.append(whole * 1_000_000_000 + part - began)
            if time.monotonic() - now > 2 * TICK:
                break
        if progress >= 0:
            os.pwrite(progress, PROGRESS.pack(len(taken), newest), 0)
        if ready:
            continue
        rest = TICK - (time.monotonic() - now)
        if rest > 0:
            time.sleep(rest)
    taken.sort()
    quantiles = {f"p{digits}": round(taken[min(len(taken) - 1, int(len(taken) * part))] / 1000, 1) for digits, part in PARTS} if taken else {}
    late = sum(nanoseconds > 100_000_000 for nanoseconds in taken)
    counts = {"sent": sent, "lost": sum(map(len, under_way)), "drops": drops(port), "wrong": wrong, "late": late, "newest": newest}
    return {**counts, **quantiles}


def drops(port: int) -> int:
    """Datagrams to and from a port that the kernel dropped because their socket was full."""
    wanted = f":{port:04X}"
    lines = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    return sum(int(line[-1]) for line in lines if line[1].endswith(wanted) or line[2].endswith(wanted))


PARTS = (("50", 0.5), ("99", 0.99), ("999", 0.999))

if __name__ == "__main__":
    given = sys.argv[4] if len(sys.argv) > 4 else "www.example.org."
    print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), given, *map(int, sys.argv[5:8]), *sys.argv[8:])), flush=True)
