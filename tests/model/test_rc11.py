"""The checker itself: what is known of RC11, and that it finds what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.model.rc11 import Checker, Graph, Location, Operation, Program, Struct, Thread, Violation

X, Y = Location(Struct("memory"), "x"), Location(Struct("memory"), "y")

#: (kind, location, value, order)
Row = tuple[Any, ...]


def load(location: Location, order: str = "relaxed") -> Row:
    return ("load", location, None, order)


def store(location: Location, value: int, order: str = "relaxed") -> Row:
    return ("store", location, value, order)


def add(location: Location, order: str = "relaxed") -> Row:
    return ("add", location, 1, order)


def fence(order: str = "seq_cst") -> Row:
    return ("fence", None, None, order)


def thread(rows: tuple[Row, ...]) -> Callable[[], Thread]:
    """It returns what its loads found."""

    def run() -> Thread:
        found = []
        for row in rows:
            result = yield Operation(*row)
            if row[0] in ("load", "add"):
                found.append(result)
        return tuple(found)

    return run


def outcomes(*threads: tuple[Row, ...]) -> set[tuple[int, ...]]:
    """What the loads of all threads find together, in all executions; behind them the last values of x and y."""
    found = set()

    def finish(graph: Graph, returned: list[Any]) -> None:
        found.add((*(value for values in returned for value in values), graph.last(X), graph.last(Y)))

    Checker(Program([thread(rows) for rows in threads], {X: 0, Y: 0}, finish)).run()
    return found


SB = [(store(X, 1), load(Y)), (store(Y, 1), load(X))]
ACQ, REL = "acquire", "release"


@pytest.mark.parametrize(
    ("name", "threads", "outcome", "allowed"),
    [
        ("store buffering", SB, (0, 0, 1, 1), True),
        ("SB, release and acquire", [(store(X, 1, REL), load(Y, ACQ)), (store(Y, 1, REL), load(X, ACQ))], (0, 0, 1, 1), True),
        ("SB, two fences", [(a, fence(), b) for a, b in SB], (0, 0, 1, 1), False),
        ("SB, one fence", [(SB[0][0], fence(), SB[0][1]), SB[1]], (0, 0, 1, 1), True),
        ("SB, fences of acquire and release", [(a, fence("acq_rel"), b) for a, b in SB], (0, 0, 1, 1), True),
        ("message passing, relaxed", [(store(X, 1), store(Y, 1)), (load(Y), load(X))], (1, 0, 1, 1), True),
        ("MP", [(store(X, 1), store(Y, 1, REL)), (load(Y, ACQ), load(X))], (1, 0, 1, 1), False),
        ("MP, relaxed load", [(store(X, 1), store(Y, 1, REL)), (load(Y), load(X))], (1, 0, 1, 1), True),
        ("MP, fences", [(store(X, 1), fence(REL), store(Y, 1)), (load(Y), fence(ACQ), load(X))], (1, 0, 1, 1), False),
        ("MP through an exchange", [(store(X, 1), store(Y, 1, REL)), (add(Y),), (load(Y, ACQ), load(X))], (2, 2, 0, 1, 2), False),
        ("MP, a store breaks the sequence", [(store(X, 1), store(Y, 1, REL), store(Y, 2)), (load(Y, ACQ), load(X))], (2, 0, 1, 2), True),
        ("load buffering", [(load(X), store(Y, 1)), (load(Y), store(X, 1))], (1, 1, 1, 1), False),
        ("coherence of two reads", [(store(X, 1), store(X, 2)), (load(X), load(X))], (2, 1, 2, 0), False),
        ("writes and reads", [(store(X, 1),), (load(X, ACQ), store(Y, 1, REL)), (load(Y, ACQ), load(X))], (1, 1, 0, 1, 1), False),
        ("WRC, relaxed", [(store(X, 1),), (load(X), store(Y, 1)), (load(Y), load(X))], (1, 1, 0, 1, 1), True),
        ("IRIW, acquire", [(store(X, 1),), (store(Y, 1),), (load(X, ACQ), load(Y, ACQ)), (load(Y, ACQ), load(X, ACQ))], (1, 0, 1, 0, 1, 1), True),
        ("IRIW, fences", [(store(X, 1),), (store(Y, 1),), (load(X), fence(), load(Y)), (load(Y), fence(), load(X))], (1, 0, 1, 0, 1, 1), False),
        ("2+2W", [(store(X, 1), store(Y, 2)), (store(Y, 1), store(X, 2))], (1, 1), True),
        ("2+2W, fences", [(store(X, 1), fence(), store(Y, 2)), (store(Y, 1), fence(), store(X, 2))], (1, 1), False),
        ("R, fences", [(store(X, 1), fence(), store(Y, 1)), (store(Y, 2), fence(), load(X))], (0, 1, 2), False),
        ("R, one fence", [(store(X, 1), store(Y, 1, REL)), (store(Y, 2), fence(), load(X))], (0, 1, 2), True),
    ],
)
def test_litmus(name: str, threads: list[tuple[Row, ...]], outcome: tuple[int, ...], allowed: bool) -> None:
    assert (outcome in outcomes(*threads)) == allowed, name


def test_additions_are_atomic() -> None:
    assert {last for *_, last, _ in outcomes((add(X), add(X)), (add(X),))} == {3}


def test_all_outcomes_of_store_buffering() -> None:
    assert outcomes(*SB) == {(a, b, 1, 1) for a in (0, 1) for b in (0, 1)}


def test_plain_accesses_race() -> None:
    plain = thread((("write", X, 1, ""),))
    with pytest.raises(Violation, match="data race"):
        Checker(Program([plain, thread((("read", X, None, ""),))], {X: 0, Y: 0})).run()
    with pytest.raises(Violation, match="data race"):
        Checker(Program([plain, thread((load(X, ACQ),))], {X: 0, Y: 0})).run()


def test_a_thread_that_waits_for_ever_is_found() -> None:
    waits = thread((("await", X, 0, "relaxed"),))
    with pytest.raises(Violation, match="waits for ever"):
        Checker(Program([waits, thread((load(X),))], {X: 0, Y: 0})).run()
    assert Checker(Program([waits, thread((store(X, 1),))], {X: 0, Y: 0})).run() == 1
