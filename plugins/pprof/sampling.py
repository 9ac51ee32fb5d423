"""What profiles are made of: threads, the CPU time that they take, Python's stacks and objects, and the process's memory."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from types import FrameType

from fastdns.plugins.pprof.profile import Frame, Profile

__all__ = ["allocations", "cpu", "heap", "threads"]

#: Samples in a second.
RATE = 100
TRACE_DEPTH = 16


def stack_of(frame: FrameType | None) -> list[Frame]:
    """Innermost first."""
    found = []
    while frame is not None:
        code = frame.f_code
        found.append(Frame(code.co_qualname, code.co_filename, frame.f_lineno or 0, code.co_firstlineno))
        frame = frame.f_back
    return found


def thread_names() -> dict[int, str]:
    """Of all threads, by their number in the kernel: Python's name where there is one, else the kernel's."""
    names = {}
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm", encoding="utf-8", errors="replace") as file:
                names[int(task)] = file.read().strip()
        except OSError:
            continue  # it has ended
    names |= {thread.native_id: thread.name for thread in threading.enumerate() if thread.native_id in names}
    return names


def stacks() -> dict[int, list[Frame]]:
    """What the threads of Python are at, by their number in the kernel."""
    frames = sys._current_frames()
    return {
        thread.native_id: stack_of(frames[thread.ident])
        for thread in threading.enumerate()
        if thread.native_id is not None and thread.ident is not None and thread.ident in frames
    }


def threads() -> Profile:
    """One sample a thread: where it stands."""
    profile = Profile([("threads", "count")], ("threads", "count", 1))
    at = stacks()
    for number, name in thread_names().items():
        profile.add([*at.get(number, []), Frame(name)], 1)
    return profile


# ---- CPU ----


class Clocks:
    """The CPU time of each thread since the last look, in ns."""

    def __init__(self) -> None:
        self.files: dict[int, int] = {}
        self.last: dict[int, int] = {}

    def look(self) -> dict[int, int]:
        found = {}
        for task in map(int, os.listdir("/proc/self/task")):
            try:
                if task not in self.files:
                    self.files[task] = os.open(f"/proc/self/task/{task}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
                now = int(os.pread(self.files[task], 128, 0).split()[0])
            except (OSError, IndexError):
                continue  # it has ended
            spent = now - self.last.get(task, now)
            self.last[task] = now
            if spent > 0:
                found[task] = spent
        return found

    def close(self) -> None:
        for file in self.files.values():
            os.close(file)


def cpu(seconds: float) -> Profile:
    """Samples for so long: the CPU time that each thread took goes to where its Python code is, or to the thread as a whole."""
    profile = Profile([("samples", "count"), ("cpu", "nanoseconds")], ("cpu", "nanoseconds", 1_000_000_000 // RATE))
    clocks = Clocks()
    own = threading.get_native_id()
    try:
        clocks.look()
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 1 / RATE))
            spent = clocks.look()
            spent.pop(own, None)
            if not spent:
                continue
            at = stacks()
            names = thread_names()
            for task, ns in spent.items():
                profile.add([*at.get(task, []), Frame(names.get(task, "ended"))], 1, ns)
    finally:
        clocks.close()
    return profile


# ---- memory ----


def heap() -> Profile:
    """The process's resident memory: Python's objects by type, the rest of what it allocated, and files that are mapped."""
    profile = Profile([("inuse_objects", "count"), ("inuse_space", "bytes")], ("space", "bytes", 1))
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for thing in gc.get_objects():
        kind = type(thing)
        name = f"{kind.__module__}.{kind.__qualname__}"
        counts[name] += 1
        sizes[name] += sys.getsizeof(thing, 0)
    anonymous = 0
    for name, resident in _mappings():
        if name:
            profile.add([Frame(name), Frame("mapped")], 1, resident)
        else:
            anonymous += resident
    for name, size in sizes.items():
        profile.add([Frame(name), Frame("python"), Frame("allocated")], counts[name], size)
    profile.add([Frame("native and others"), Frame("allocated")], 1, max(0, anonymous - sum(sizes.values())))
    return profile


def _mappings() -> Iterator[tuple[str, int]]:
    """(path or "", resident octets) of each mapping."""
    name = ""
    with open("/proc/self/smaps", encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.split()
            if words and not words[0].endswith(":"):
                name = words[5] if len(words) > 5 and not words[5].startswith("[") else ""
            elif line.startswith("Rss:"):
                yield name, int(words[1]) * 1024


def allocations(seconds: float) -> Profile:
    """What Python allocated in so many seconds and still has, by where that was."""
    profile = Profile([("alloc_objects", "count"), ("alloc_space", "bytes")], ("space", "bytes", 1))
    ours = not tracemalloc.is_tracing()
    if ours:
        tracemalloc.start(TRACE_DEPTH)
    try:
        time.sleep(seconds)
        snapshot = tracemalloc.take_snapshot()
    finally:
        if ours:
            tracemalloc.stop()
    for statistic in snapshot.statistics("traceback"):
        frames = [Frame(os.path.basename(frame.filename), frame.filename, frame.lineno) for frame in reversed(statistic.traceback)]
        profile.add(frames, statistic.count, statistic.size)
    return profile
