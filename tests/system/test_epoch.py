"""A mark passes when every worker seen online has moved on."""

import pytest

from fastdns.system import epoch


def test_offline_workers_hold_nobody_up() -> None:
    assert epoch.Mark().passed()


def test_an_online_worker_holds_the_ticket_until_it_moves() -> None:
    epoch.online(63)
    try:
        mark = epoch.Mark()
        assert not mark.passed()
        epoch.online(63)  # announces again: what it held before is gone
        assert mark.passed()
        later = epoch.Mark()
        assert not later.passed()
    finally:
        epoch.offline(63)
    assert later.passed()


def test_a_worker_that_comes_later_is_not_waited_for() -> None:
    mark = epoch.Mark()
    epoch.online(63)
    try:
        assert mark.passed()
    finally:
        epoch.offline(63)


def test_worker_numbers_are_checked() -> None:
    with pytest.raises(ValueError, match="64"):
        epoch.online(64)
