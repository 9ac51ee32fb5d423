"""The mailbox: order, wake-ups, several producers."""

from __future__ import annotations

import select
import threading

from fastdns.bench.micro.loops import NumberBox

PRODUCERS = 4
ITEMS = 20_000


def readable(box: NumberBox) -> bool:
    return bool(select.select([box.wake], [], [], 0)[0])


def test_items_come_in_the_order_of_posting() -> None:
    box = NumberBox()
    box.post(1, 3)
    box.post(2, 2)
    assert box.collect() == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]
    assert box.collect() == []


def test_only_a_sleeping_consumer_is_woken() -> None:
    box = NumberBox()
    box.collect()
    assert not readable(box)
    box.post(1, 1)
    assert readable(box)
    assert box.collect() == [(1, 0)]
    assert not readable(box), "collect clears it"
    box.end_sleep()
    box.post(1, 1)
    assert not readable(box), "a consumer that is awake looks by itself"
    assert box.wait() == [(1, 0)]


def test_items_posted_before_the_first_sleep_end_it() -> None:
    box = NumberBox()
    box.end_sleep()
    box.post(7, 2)
    assert box.wait() == [(7, 0), (7, 1)]


def test_several_producers_lose_nothing_and_keep_their_order() -> None:
    box = NumberBox()
    threads = [threading.Thread(target=box.post, args=(producer, ITEMS)) for producer in range(PRODUCERS)]
    for thread in threads:
        thread.start()
    found: dict[int, list[int]] = {producer: [] for producer in range(PRODUCERS)}
    while sum(map(len, found.values())) < PRODUCERS * ITEMS:  # a lost wake-up would hang here
        for producer, number in box.wait():
            found[producer].append(number)
    for thread in threads:
        thread.join()
    assert found == {producer: list(range(ITEMS)) for producer in range(PRODUCERS)}
