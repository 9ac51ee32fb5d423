"""Settings of the whole machine that kubelet changes, and that are as before when no cluster is up any more."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.programs import CACHE

__all__ = ["kept_sysctls"]

NAMES = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes")


@contextlib.contextmanager
def kept_sysctls(record: Path = CACHE / "sysctls", root: Path = Path("/proc/sys")) -> Iterator[None]:
    """The first of several runs at the same time records the values, the last one restores them; all hold a shared lock on the record."""
    with record.open("a+") as file:
        # A record that is there though nobody has the lock is of a run that was killed.
        if _alone(file.fileno()) and not record.read_text():
            values = {name: (root / name).read_text() for name in NAMES if os.access(root / name, os.R_OK)}
            record.write_text(json.dumps(values))
        fcntl.flock(file, fcntl.LOCK_SH)
        try:
            yield
        finally:
            if _alone(file.fileno()):
                for name, value in json.loads(record.read_text()).items():
                    if (root / name).read_text() != value:
                        (root / name).write_text(value)
                record.write_text("")


def _alone(file: int) -> bool:
    """Whether nobody else has the lock; this process then has it alone."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
