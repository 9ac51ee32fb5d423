"""Libraries of the tests that a server is started with (LD_PRELOAD), and the memory that they and the test share."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

CONTROL = 16


class Preload:
    """A library made of a C file of the tests, and its control: two numbers of 64 bits in a file that both sides map."""

    def __init__(self, source: Path, folder: Path) -> None:
        #: The environment variable that names the control's file to the library: FASTDNS_CLOCK for clock.c.
        self.variable = f"FASTDNS_{source.stem.upper()}"
        self.library, self.file = folder / f"{source.stem}.so", folder / f"{source.stem}.control"
        command = [os.environ.get("CC", "gcc"), "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(self.library), str(source), "-ldl"]
        subprocess.run(command, check=True)
        self.file.write_bytes(bytes(CONTROL))
        with self.file.open("r+b") as opened:
            self._control = mmap.mmap(opened.fileno(), CONTROL)

    def set(self, value: int) -> None:
        """What the library is told."""
        self._control[:8] = value.to_bytes(8, sys.byteorder, signed=True)

    def count(self) -> int:
        """How often it has done it."""
        return int.from_bytes(self._control[8:], sys.byteorder)

    def close(self) -> None:
        self._control.close()


def environment(*preloads: Preload) -> dict[str, str]:
    """For a server that is started with them."""
    libraries = [os.environ.get("LD_PRELOAD", ""), *(str(one.library) for one in preloads)]
    return {"LD_PRELOAD": " ".join(filter(None, libraries)), **{one.variable: str(one.file) for one in preloads}}
