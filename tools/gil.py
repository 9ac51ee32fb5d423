"""Does a Python thread that holds the interpreter's lock disturb queries that need no Python? Run: .venv/bin/python tools/gil.py [ROUNDS]

Two servers alike but for a plugin whose thread holds the lock for 500 ms at a time, in another process than the load. Rounds alternate between
them, quiet first; told are the medians of p50 and p99 and what was lost. The control is a process of its own that is as busy as the thread.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.load import Load
from tests.server import Server

RATE = 5000
SECONDS = 4

PLUGIN = """
import ctypes
import threading
import time

def hold():
    hold_lock = ctypes.PyDLL(None).usleep  # PyDLL keeps the interpreter's lock during the call
    while True:
        hold_lock(500_000)
        time.sleep(0.01)

def setup(controller):
    threading.Thread(target=hold, daemon=True).start()
"""

COREFILE = """
.:{port} {
    bind 127.0.0.1
    errors
    PLUGIN
    cache
    hosts {
        10.0.0.1 www.example.org
        fallthrough
    }
    whoami
}
"""


def main(rounds: int) -> int:
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place) / name for name in ("quiet", "held")]
        for folder in folders:
            folder.mkdir()
        (folders[1] / "hold.py").write_text(PLUGIN)
        quiet = Server(folders[0], COREFILE.replace("PLUGIN", ""))
        held = Server(folders[1], COREFILE.replace("PLUGIN", "plugin {dir}/hold.py"))
        try:
            quiet.wait_started()
            held.wait_started()
            found: dict[str, list[dict[str, float]]] = {"quiet": [], "held": []}
            for _ in range(rounds):
                for name, server in (("quiet", quiet), ("held", held)):
                    found[name].append(Load(server.port, RATE, SECONDS).wait())
        finally:
            quiet.stop()
            held.stop()
    medians = {name: {key: statistics.median(each[key] for each in results) for key in ("p50", "p99")} for name, results in found.items()}
    lost = {name: sum(each["lost"] + each["wrong"] for each in results) for name, results in found.items()}
    ratio = round(medians["held"]["p99"] / medians["quiet"]["p99"], 2)
    print(json.dumps({"medians": medians, "lost or wrong": lost, "p99 held to quiet": ratio, "rounds": rounds}, indent=1))
    return int(bool(lost["held"]))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
