"""moto's server: Route 53 and Secrets Manager of AWS over HTTP."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.server import free_port
from tests.waiting import until


@contextmanager
def run_moto(folder: Path) -> Iterator[str]:
    """Its URL. ``folder`` is for its log."""
    port = free_port()
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=output, stderr=output)
    try:
        until(lambda: "Running on http" in log.read_text() or process.poll(), "moto")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()
