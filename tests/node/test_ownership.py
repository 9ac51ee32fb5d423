"""Owners of one network: who leaves last is told so, and who comes waits for it."""

from __future__ import annotations

import threading
from pathlib import Path

from fastdns.node.ownership import Ownership
from tests.waiting import LIMIT


def test_the_last_one_is_told(tmp_path: Path) -> None:
    first, second, third = (Ownership(str(tmp_path), "a") for _ in range(3))
    for owner in (first, second, third):
        owner.join()
    assert [second.leave(), first.leave(), third.leave()] == [False, False, True]


def test_who_has_not_joined_removes_nothing_of_others(tmp_path: Path) -> None:
    owner, other = Ownership(str(tmp_path), "a"), Ownership(str(tmp_path), "a")
    owner.join()
    assert not other.leave()
    assert owner.leave()


def test_networks_have_owners_of_their_own(tmp_path: Path) -> None:
    first, second = Ownership(str(tmp_path), "a"), Ownership(str(tmp_path), "b")
    for owner in (first, second):
        owner.join()
    assert first.leave()
    assert second.leave()


def test_who_comes_waits_until_all_is_removed(tmp_path: Path) -> None:
    first, second = Ownership(str(tmp_path), "a"), Ownership(str(tmp_path), "a")
    first.join()
    assert first.leave()
    joined = threading.Event()

    def join() -> None:
        second.join()
        joined.set()

    thread = threading.Thread(target=join)
    thread.start()
    assert not joined.wait(0.2)
    first.release()
    thread.join(LIMIT)
    assert joined.is_set()
    assert not first.leave()
