"""In every Python of `make sanitize` (tools/with_sanitizers.sh): looks for leaks before the process ends, and notes down which test started it.

LeakSanitizer's own check at exit never runs in a server, which ends by `os._exit`.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import sys
from pathlib import Path
from typing import NoReturn

#: Folder of all reports: NAME.PID is one of the sanitizers, PID.test the test that process was started in.
REPORTS = os.environ.get("FASTDNS_REPORTS", "")
CHECK = "__lsan_do_recoverable_leak_check"


def check() -> None:
    """Have LeakSanitizer write down what nothing points to. It stops all threads meanwhile. What Python has not collected yet is not lost."""
    gc.collect()
    library = ctypes.CDLL(None)
    library.__sanitizer_set_report_path(os.fsencode(f"{REPORTS}/leak"))
    getattr(library, CHECK)()


def end(status: int) -> NoReturn:
    check()
    leave(status)


leave = os._exit
if REPORTS and hasattr(ctypes.CDLL(None), CHECK):
    Path(REPORTS, f"{os.getpid()}.test").write_text(f"{os.environ.get('PYTEST_CURRENT_TEST', 'no test')}: {' '.join(sys.orig_argv)}\n")
    os._exit = end  # type: ignore[assignment]
    atexit.register(check)
