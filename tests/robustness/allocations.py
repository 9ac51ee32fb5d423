"""Failing allocations of fastdns's own modules in another process: the test's side of allocations.c."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
from bisect import bisect
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import fastdns
import fastdns.plugins

SOURCE = Path(__file__).with_name("allocations.c")
FOLDERS = [*fastdns.__path__, *fastdns.plugins.__path__]
#: More than there will ever be.
ALL = 1 << 40

SITES, MODULES, NAME = 1024, 128, 96


class Site(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32 if name != "offset" else ctypes.c_uint64) for name in ("offset", "module", "hits", "failed", "padding")]


class Control(ctypes.Structure):
    _fields_ = [
        ("armed", ctypes.c_uint32),
        ("only", ctypes.c_int32),
        ("skip", ctypes.c_int64),
        ("fail", ctypes.c_int64),
        ("seen", ctypes.c_uint64),
        ("failed", ctypes.c_uint64),
        ("sites", ctypes.c_uint32),
        ("modules", ctypes.c_uint32),
        ("module", (ctypes.c_char * NAME) * MODULES),
        ("site", Site * SITES),
    ]


@dataclass(frozen=True)
class Place:
    """A call of an allocating function."""

    number: int
    name: str
    hits: int
    failed: int


@cache
def functions(module: str) -> tuple[list[int], list[str]]:
    """Addresses and names of a module's functions, for messages that say where."""
    for path in (Path(folder).parent / module for folder in [*FOLDERS, *(str(Path(folder) / "any") for folder in FOLDERS)]):
        if path.exists():
            lines = [line.split() for line in subprocess.run(["nm", "-n", path], capture_output=True, text=True, check=True).stdout.splitlines()]
            found = [(int(line[0], 16), line[2]) for line in lines if len(line) == 3 and line[1] in "tT"]
            return [address for address, _ in found], [name for _, name in found]
    return [], []


class Allocations:
    """Builds the shim in a folder; `env` makes a process obey it. `arm` and `disarm` from then on, also by that process itself (``own``)."""

    def __init__(self, folder: Path, own: bool = False) -> None:
        self.library = folder / "allocations.so"
        if not self.library.exists():
            command = [os.environ.get("CC", "gcc"), "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(self.library), str(SOURCE), "-ldl"]
            subprocess.run(command, check=True)
        self.path = folder / "allocations"
        if not own:
            self.path.write_bytes(bytes(ctypes.sizeof(Control)))
        self.file = self.path.open("r+b")
        self.mapped = mmap.mmap(self.file.fileno(), 0)
        self.control = Control.from_buffer(self.mapped)

    def env(self) -> dict[str, str]:
        """For the server's process. A sanitizer's library stays loaded, and comes behind ours."""
        return {
            "LD_PRELOAD": " ".join([str(self.library), os.environ.get("LD_PRELOAD", "")]).strip(),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0",
            "FASTDNS_ALLOCATIONS": str(self.path),
            "FASTDNS_ALLOCATIONS_OF": ":".join(FOLDERS),
        }

    def arm(self, *, skip: int = 0, fail: int = 0, only: int = -1) -> None:
        """From now on allocations are counted, and behind the first ``skip`` so many ``fail``: of one site, or of all."""
        control = self.control
        control.armed = 0
        control.only, control.skip, control.fail = only, skip, fail
        control.seen = control.failed = 0
        for number in range(control.sites):
            control.site[number].hits = control.site[number].failed = 0
        control.armed = 1

    def disarm(self) -> int:
        """Everything goes well again; how many have failed."""
        self.control.armed = 0
        failed: int = self.control.failed
        return failed

    @property
    def seen(self) -> int:
        count: int = self.control.seen
        return count

    def places(self) -> list[Place]:
        """The sites that were met since `arm`."""
        return [place for place in map(self.place, range(self.control.sites)) if place.hits]

    def place(self, number: int) -> Place:
        site = self.control.site[number]
        module = bytes(self.control.module[site.module].value).decode()
        addresses, names = functions(module)
        at = bisect(addresses, site.offset - 1) - 1
        return Place(number, f"{module.partition('.')[0]} {names[at] if at >= 0 else ''} {site.offset:#x}", site.hits, site.failed)

    def close(self) -> None:
        del self.control
        self.mapped.close()
        self.file.close()
