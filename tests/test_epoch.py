"""A ticket passes when every worker seen online has moved on."""

import pytest

from fastdns import _epoch


def test_offline_workers_hold_nobody_up() -> None:
    assert _epoch.Ticket().passed()


def test_an_online_worker_holds_the_ticket_until_it_moves() -> None:
    _epoch.online(63)
    try:
        ticket = _epoch.Ticket()
        assert not ticket.passed()
        _epoch.online(63)  # announces again: what it held before is gone
        assert ticket.passed()
        later = _epoch.Ticket()
        assert not later.passed()
    finally:
        _epoch.offline(63)
    assert later.passed()


def test_a_worker_that_comes_later_is_not_waited_for() -> None:
    ticket = _epoch.Ticket()
    _epoch.online(63)
    try:
        assert ticket.passed()
    finally:
        _epoch.offline(63)


def test_worker_numbers_are_checked() -> None:
    with pytest.raises(ValueError, match="64"):
        _epoch.online(64)
