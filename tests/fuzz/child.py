"""One fuzz target under libFuzzer, in a process of its own: ``python -m tests.fuzz.child TARGET [libFuzzer's arguments]``; tests/fuzz/__main__.py starts it.

Modules that clang has compiled come before the ordinary ones; the coverage of Python's code is counted line by line (`trace`).
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import shlex
import signal
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

COUNTERS = 16384

ending: list[Any] = []  # what C calls has to live that long

Callback = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Watched:
    """Finds the modules that are under a folder by their whole names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.suffix = sysconfig.get_config_var("EXT_SUFFIX")

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        library = self.folder / f"{name.replace('.', '/')}{self.suffix}"
        return importlib.util.spec_from_file_location(name, library) if library.is_file() else None


def trace(modules: Sequence[str], library: ctypes.CDLL) -> None:
    """Counts each step from one line to the next in the modules' Python code, for libFuzzer, and says at the end which share of their lines was reached."""
    counters = (ctypes.c_uint8 * COUNTERS).in_dll(library, "fuzz_counters")
    folders = tuple(f"/fastdns/{name.replace('.', '/')}/" for name in modules)
    known: dict[CodeType, int] = {}
    reached: set[tuple[CodeType, int]] = set()
    last = 0

    def line(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal last
        here = known[frame.f_code] + frame.f_lineno
        at = (here ^ last << 1) % COUNTERS
        if counters[at] < 255:
            counters[at] += 1
        last = here
        reached.add((frame.f_code, frame.f_lineno))
        return line

    def call(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if code not in known:
            wanted = any(folder in code.co_filename for folder in folders)
            known[code] = sum(code.co_filename.encode()) * 613 if wanted else -1
        return line if known[code] >= 0 else None

    def report() -> None:
        sys.settrace(None)
        files = {Path(code.co_filename) for code, _ in reached}
        lines = sum(len(executable(compile(path.read_text(), str(path), "exec"))) for path in files)
        print(f"==lines== {len({(code.co_filename, at) for code, at in reached})}/{lines}", file=sys.stderr, flush=True)

    sys.settrace(call)
    ending.append(ctypes.CFUNCTYPE(None)(report))
    library.fuzz_at_end(ending[0])  # libFuzzer ends the process without Python


def executable(module: CodeType) -> set[int]:
    """The lines of the functions of a module: its own run when it is imported."""
    found: set[int] = set()
    for code in (constant for constant in module.co_consts if isinstance(constant, CodeType)):
        own = {at for _, _, at in code.co_lines() if at is not None and at != code.co_firstlineno} if "__module__" not in code.co_names else set()
        found |= own | executable(code)
    return found


def main() -> None:
    name, *arguments = sys.argv[1:]
    sys.meta_path.insert(0, Watched(Path(os.environ["FASTDNS_FUZZED"])))
    from tests.fuzz import targets

    library = ctypes.PyDLL(os.environ["FASTDNS_LIBFUZZER"], mode=ctypes.RTLD_GLOBAL)
    target = targets.TARGETS[name]

    def run(octets: int, size: int) -> None:
        try:
            said = targets.check(name, ctypes.string_at(octets, size))
        except BaseException:
            said = traceback.format_exc()
        if said:
            print("==fuzz==", said, file=sys.stderr, flush=True)
            os.abort()

    callback = Callback(run)
    function = ctypes.cast(callback, ctypes.c_void_p) if target.check is not None else ctypes.c_void_p(targets.address(name))
    if name == "corefile":
        trace(target.modules, library)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # libFuzzer starts its own helpers with the first word, through a shell.
    words = [shlex.join([sys.executable, "-m", "tests.fuzz.child", name]).encode(), *(os.fsencode(argument) for argument in arguments)]
    library.fuzz(len(words), (ctypes.c_char_p * (len(words) + 1))(*words, None), function)


if __name__ == "__main__":
    main()
