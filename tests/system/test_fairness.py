"""Fair queues: of whom the oldest goes, whatever was added and removed."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.native.fairness import LEVELS, Entries

#: As in system/fairness: the first level whose keys may be forged, and the part of a group that one in it needs to be singled out.
FORGED = 2
SHARE = 16


def check(entries: Entries, waiting: dict[int, tuple[int, ...]]) -> None:
    """The choice is the oldest of the group where the descent to the largest ends. `waiting` has the keys of all, the oldest first."""
    chosen = entries.choose()
    if not waiting:
        assert chosen is None
        return
    assert chosen in waiting
    keys = waiting[chosen]
    length = 0
    for level in range(LEVELS):
        beside = Counter(other[: level + 1] for other in waiting.values() if other[:level] == keys[:level])
        most = max(beside.values())
        if level >= FORGED and most * SHARE < beside.total():
            break
        assert beside[keys[: level + 1]] == most
        length = level + 1
    assert chosen == next(which for which, other in waiting.items() if other[:length] == keys[:length])


@pytest.mark.parametrize("spread", [(1, 1, 1, 1), (3, 1, 1, 1), (2, 2, 3, 2), (1, 1, 300, 1), (2, 1, 40, 40), (5, 5, 5, 5)])
def test_any_mixture_against_a_model(spread: tuple[int, ...]) -> None:
    rng = random.Random(str(spread))
    number = 300
    entries = Entries(number)
    waiting: dict[int, tuple[int, ...]] = {}
    for full in (20, number, 5, number, 0):
        for _ in range(600):
            if len(waiting) < full and (rng.random() < 0.7 or not waiting):
                which = rng.choice([i for i in range(number) if i not in waiting])
                waiting[which] = tuple(int(keys * rng.random() ** 3) for keys in spread)
                entries.add(which, *waiting[which])
            elif waiting:
                gone = entries.choose() if rng.random() < 0.5 else rng.choice(list(waiting))
                assert gone is not None
                entries.remove(gone)
                del waiting[gone]
            check(entries, waiting)
    assert not waiting


def test_there_is_memory_for_groups_of_one() -> None:
    """Each entry alone at every level, time and again."""
    number = 64
    entries = Entries(number)
    for turn in range(5):
        for i in range(number):
            key = turn * number + i
            entries.add(i, key, key, key, key)
        assert entries.made() == (number * LEVELS, entries.made()[1])
        assert entries.made()[1] <= number * LEVELS + 1
        for _ in range(number):
            chosen = entries.choose()
            assert chosen is not None
            entries.remove(chosen)
    assert entries.choose() is None


def test_equal_keys_of_different_groups_are_different_groups() -> None:
    entries = Entries(5)
    entries.add(0, 1, 7, 7, 7)
    entries.add(1, 1, 7, 7, 7)
    for i in (2, 3, 4):
        entries.add(i, 2, i, 7, 7)
    assert entries.choose() == 2
    entries.remove(2)
    entries.remove(3)
    assert entries.choose() == 0
