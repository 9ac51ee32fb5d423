"""Threads that take what workers hand over: started once, and again where none could be started."""

from __future__ import annotations

import threading

import pytest

from fastdns.control import OffloadThread
from tests.waiting import until


def test_it_is_started_once_and_again_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    begun: list[str] = []
    thread = OffloadThread("requests", lambda: opened.append(1), lambda: begun.append(threading.current_thread().name))

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            thread.start()
    for _ in range(2):
        thread.start()
    until(lambda: begun)
    assert begun == ["requests"]
    assert opened == [1]
