"""The worker threads, as the kernel sees them."""

from __future__ import annotations

import ctypes
import os
import re
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.certificates import write_certificates
from tests.server import Server

SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}
ATTR = struct.Struct("=IIQiIQQQ")


def slice_of(thread: int) -> int:
    """What a thread's slice is said to be, in nanoseconds; 0 from kernels that give all threads the same."""
    buffer = ctypes.create_string_buffer(ATTR.size)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(SCHED_GETATTR[os.uname().machine], thread, buffer, ATTR.size, 0):
        raise OSError(ctypes.get_errno(), "sched_getattr")
    return int(ATTR.unpack(buffer.raw)[5])


def test_workers_have_the_shortest_slices_and_nobody_else_has(serve: Callable[..., Server]) -> None:
    """Decoding a cluster on a worker's CPU must not hold up its answers for a slice of 3 ms."""
    server = serve(".:{port} {\n bind 127.0.0.1\n whoami\n}\n", "-workers", "2")
    server.answers("x.test.", "A")
    mine = slice_of(0)
    found = sorted(slice_of(int(path.name)) for path in Path(f"/proc/{server.process.pid}/task").iterdir())
    assert len(found) > 2
    assert found[:2] == [min(mine, 100_000)] * 2
    assert set(found[2:]) == {mine}


def test_threads_are_named(serve: Callable[..., Server], tmp_path: Path) -> None:
    folder = write_certificates(tmp_path)
    server = serve(
        f"tls://.:{{port}} {{\n bind 127.0.0.1\n tls {folder}/server.pem {folder}/server.key\n whoami\n health 127.0.0.1:{{port2}}\n}}\n", "-workers", "2"
    )
    found = Counter(re.sub(r"\d+$", "", (path / "comm").read_text().strip()) for path in Path(f"/proc/{server.process.pid}/task").iterdir())
    assert found["worker-"] == 2
    assert found.keys() >= {"handshake", "http", "log", "watchdog"}
