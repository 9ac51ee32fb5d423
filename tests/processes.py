"""Processes that tests start: none outlives the run."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

#: Seconds for what is ending already.
GRACE = 5.0
#: Marks the environment of all that a run starts, and of what that starts.
RUN = "FASTDNS_TEST_RUN"
#: pytest's own, with the test's name and stage.
TEST = "PYTEST_CURRENT_TEST"
#: Python's own, which end with the process that uses them.
PYTHONS = ("from multiprocessing.resource_tracker import", "from multiprocessing.forkserver import")


def running(run: str) -> dict[int, str]:
    """The processes of a run that have not ended: their ids, with what they are and which test started them."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = dict(entry.split("=", 1) for entry in os.fsdecode((folder / "environ").read_bytes()).split("\0") if "=" in entry)
            command = os.fsdecode((folder / "cmdline").read_bytes()).replace("\0", " ").strip()
        except OSError:
            continue
        if environment.get(RUN) == run and int(folder.name) != os.getpid() and not any(python in command for python in PYTHONS):
            found[int(folder.name)] = f"{command} (started by {environment.get(TEST, 'no test')})"
    return found


@pytest.fixture(scope="session", autouse=True)
def no_process_left() -> Iterator[None]:
    """Fails the last test of a run that leaves processes behind, names them, and ends them. Each process that shares the tests looks for its own."""
    before = os.environ.get(RUN)
    run = os.environ[RUN] = uuid.uuid4().hex
    yield
    if before is None:
        del os.environ[RUN]
    else:
        os.environ[RUN] = before
    end = time.monotonic() + GRACE
    while (left := running(run)) and time.monotonic() < end:
        time.sleep(0.05)
    for process in left:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    assert not left, "tests left processes behind:\n" + "\n".join(f"{process}: {what}" for process, what in left.items())
