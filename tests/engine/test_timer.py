"""The wheel of a worker's timers: nothing fires early, nothing is forgotten, whatever timers do to one another."""

from __future__ import annotations

import random

import pytest

from tests.native.timers import Timers

#: Nanoseconds of a slot, and slots of a turn of the wheel.
TICK = 1 << 22
SLOTS = 1024
TURN = SLOTS * TICK
MILLISECOND = 1_000_000
#: Some moment of a clock that has run for long.
NOW = 123_456 * TURN + 777 * TICK + 99


def tick(moment: int) -> int:
    """The slot, counted from the clock's beginning, in which a deadline fires: rounded up."""
    return moment // TICK + 1


def test_timers_fire_in_the_order_of_their_slots_and_then_of_their_starting() -> None:
    timers = Timers(6, NOW)
    for which, ahead in enumerate((9, 3, 7, 3, 1, 9)):
        timers.start(which, NOW + ahead * TICK)
    assert len(timers) == 6
    assert timers.turn(NOW + 20 * TICK) == [4, 1, 3, 2, 0, 5]
    assert len(timers) == 0
    assert timers.turn(NOW + 5 * TURN) == []


@pytest.mark.parametrize("ahead", [0, 1, TICK - 100, TICK, 5 * TICK + 1, TURN - TICK, TURN, TURN + 1, 3 * TURN + 17, 1000 * TURN + 5])
def test_none_fires_early_nor_more_than_a_slot_late(ahead: int) -> None:
    """Turned slot by slot near the deadline, as a worker does that has much else to do."""
    timers = Timers(1, NOW)
    deadline = NOW + ahead
    timers.start(0, deadline)
    for moment in range(NOW, NOW + ahead - 3 * TICK, 100 * TURN + 7 * TICK + 1):
        assert timers.turn(moment) == []
    moment = max(NOW, deadline - 3 * TICK)
    while moment < deadline:
        assert timers.turn(moment) == []
        moment += TICK // 5
    fired = [moment for moment in range(moment, moment + 3 * TICK, TICK // 5) if timers.turn(moment)]
    assert len(fired) == 1
    assert deadline <= fired[0] <= deadline + TICK + TICK // 5


@pytest.mark.parametrize("deadline", [NOW, NOW - 1, NOW - 5 * TURN, 1, 0, -(10**15)])
def test_what_is_past_fires_in_the_next_slot(deadline: int) -> None:
    timers = Timers(1, NOW)
    timers.start(0, deadline)
    assert timers.running(0)
    assert timers.turn(NOW + TICK) == [0]
    assert not timers.running(0)


def test_a_stopped_timer_does_not_fire_and_wakes_nobody() -> None:
    timers = Timers(3, NOW)
    for which in range(3):
        timers.start(which, NOW + 5 * TICK)
    timers.stop(1)
    timers.stop(1)
    assert [timers.running(which) for which in range(3)] == [True, False, True]
    assert timers.turn(NOW + 10 * TICK) == [0, 2]
    timers.start(0, NOW + 20 * TICK)
    timers.stop(0)
    assert timers.timeout(NOW + 10 * TICK) == -1
    timers.start(1, NOW + 2 * TURN)
    timers.start(0, NOW + 20 * TICK)
    timers.stop(0)
    assert timers.timeout(NOW + 10 * TICK) > 20 * TICK // MILLISECOND


def test_starting_again_moves_a_timer() -> None:
    timers = Timers(2, NOW)
    timers.start(0, NOW + 3 * TICK)
    timers.start(1, NOW + 5 * TICK)
    timers.start(0, NOW + 9 * TICK)
    assert len(timers) == 2
    assert timers.turn(NOW + 7 * TICK) == [1]
    assert timers.turn(NOW + 11 * TICK) == [0]


def test_a_far_deadline_stays_in_its_slot_turn_after_turn() -> None:
    """One slot holds timers of several turns; each turn takes out those that are due and leaves the others."""
    timers = Timers(5, NOW)
    for which in (3, 1, 4, 0, 2):
        timers.start(which, NOW + 7 * TICK + which * TURN)
    for which in range(5):
        assert timers.turn(NOW + 6 * TICK + which * TURN) == []
        assert timers.turn(NOW + 9 * TICK + which * TURN) == [which]
        assert len(timers) == 4 - which


def test_after_a_long_sleep_all_that_is_due_fires_once() -> None:
    """The process was stopped for several turns of the wheel: one turn catches up, and what is not due yet stays."""
    timers = Timers(2000, NOW)
    for which in range(2000):
        timers.start(which, NOW + which * 7 * TICK)
    later = NOW + 9 * TURN + 13 * TICK
    due = [which for which in range(2000) if tick(NOW + which * 7 * TICK) <= later // TICK]
    assert sorted(timers.turn(later)) == due
    assert len(timers) == 2000 - len(due)
    assert sorted(timers.turn(NOW + 2000 * 7 * TICK)) == list(range(len(due), 2000))


def test_many_at_one_slot() -> None:
    timers = Timers(50_000, NOW)
    for which in range(50_000):
        timers.start(which, NOW + 100 * TICK + which % TICK % 999)
    for which in range(0, 50_000, 3):
        timers.stop(which)
    assert timers.turn(NOW + 99 * TICK) == []
    assert timers.turn(NOW + 102 * TICK) == [which for which in range(50_000) if which % 3]


def test_a_timer_may_start_itself_again() -> None:
    timers = Timers(1, NOW)
    timers.start(0, NOW + TICK)
    for ahead in (50, 2 * SLOTS, 3 * SLOTS + 9):
        timers.plan(0, again=NOW + ahead * TICK)
        assert timers.turn(NOW + (ahead - 1) * TICK) == [0], "fired, and waits again"
        assert timers.running(0)
    assert timers.turn(NOW + (3 * SLOTS + 11) * TICK) == [0]
    assert len(timers) == 0


@pytest.mark.parametrize("again", [1, NOW - TURN, NOW, NOW + 5 * TICK])
def test_starting_itself_in_the_past_is_no_endless_loop(again: int) -> None:
    timers = Timers(1, NOW)
    timers.start(0, NOW)
    timers.plan(0, again=again)
    assert timers.turn(NOW + 9 * TICK) == [0, 0]
    assert len(timers) == 0


def test_a_timer_may_stop_another_of_its_slot() -> None:
    """Before it, behind it, the last one, and one that waits for a later turn."""
    for victim in range(4):
        timers = Timers(4, NOW)
        for which in range(3):
            timers.start(which, NOW + 3 * TICK)
        timers.start(3, NOW + 3 * TICK + TURN)
        timers.plan(1, stops=victim)
        fired = timers.turn(NOW + 5 * TICK)
        assert fired == [which for which in range(3) if which != victim or which <= 1]
        assert timers.turn(NOW + 5 * TICK + TURN) == ([] if victim == 3 else [3])
        assert len(timers) == 0


def test_a_timer_may_start_another_of_the_slot_that_fires() -> None:
    """Moved on while it waits for its turn to fire, it does not fire now."""
    timers = Timers(3, NOW)
    for which in range(2):
        timers.start(which, NOW + 3 * TICK)
    timers.plan(0, starts=(1, NOW + 8 * TICK))
    timers.plan(1, starts=(2, NOW + 3 * TICK))
    assert timers.turn(NOW + 5 * TICK) == [0]
    assert timers.turn(NOW + 12 * TICK) == [1, 2]


def test_timeout_is_never_late_and_never_spins() -> None:
    """Sleeping for as long as it says finds a timer due; a timer of a later turn may wake the worker once a turn, no oftener."""
    choice = random.Random(3)
    for ahead in [0, 1, TICK, 5 * TICK, TURN - 1, TURN, TURN + TICK, 5 * TURN + 3, *(choice.randrange(6 * TURN) for _ in range(200))]:
        now = NOW + choice.randrange(TURN)
        timers = Timers(1, now)
        timers.start(0, now + ahead)
        wakes = 0
        while timers.running(0):
            wait = timers.timeout(now)
            assert 0 <= wait <= TURN // MILLISECOND + 5
            now += wait * MILLISECOND
            timers.turn(now)
            wakes += 1
            assert wakes <= ahead // TURN + 3
    assert Timers(1, NOW).timeout(NOW) == -1


def test_the_clock_may_stand_still_and_the_wheel_be_empty_for_long() -> None:
    timers = Timers(1, NOW)
    assert timers.turn(NOW) == []
    assert timers.turn(NOW + 77 * TURN) == []
    timers.start(0, NOW + 77 * TURN + 2 * TICK)
    assert timers.turn(NOW + 77 * TURN) == []
    assert timers.turn(NOW + 77 * TURN + 4 * TICK) == [0]


@pytest.mark.parametrize("seed", range(8))
def test_any_mixture_against_a_model(seed: int) -> None:
    """Starts, stops and turns of any width: exactly those fire whose slot the clock has reached, each once."""
    choice = random.Random(seed)
    timers, now = Timers(200, NOW), NOW
    turned = now // TICK
    slots: dict[int, int] = {}  # running timers, and the slots in which they fire
    for _ in range(4000):
        what = choice.random()
        which = choice.randrange(200)
        if what < 0.5:
            ahead = choice.choice((choice.randrange(-5 * TICK, 5 * TICK), choice.randrange(TURN), choice.randrange(20 * TURN)))
            timers.start(which, now + ahead)
            slots[which] = max(tick(now + ahead), turned + 1)
        elif what < 0.7:
            timers.stop(which)
            slots.pop(which, None)
        else:
            now += choice.choice((0, choice.randrange(TICK), choice.randrange(50 * TICK), choice.randrange(2 * TURN) if choice.random() < 0.2 else 1))
            turned = now // TICK
            due = {which for which, slot in slots.items() if slot <= turned}
            fired = timers.turn(now)
            assert len(fired) == len(set(fired))
            assert set(fired) == due
            for gone in fired:
                del slots[gone]
        assert len(timers) == len(slots)
        if slots:
            assert timers.timeout(now) <= max(0, (min(slots.values()) * TICK - now) // MILLISECOND + 1)
        else:
            assert timers.timeout(now) == -1
