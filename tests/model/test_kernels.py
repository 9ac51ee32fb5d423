"""The four smallest lock-free kernels, in every execution that C11 allows: right as they stand, and wrong with any one order weakened that they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from tests.model.rc11 import FREED, Checker, Graph, Location, Operation, Program, Struct, Thread, Violation
from tests.model.source import ATOMICS, ROOT, Kernel, Site, structs, weaker

MAILBOX, FUTEX, SPINLOCK, EPOCH = (f"fastdns/system/{name}" for name in ("mailbox.pxd", "futex.pxd", "spinlock.pxd", "epoch.pyx"))


def relaxed(kind: str, location: Location, value: Any = None) -> Thread:
    return (yield Operation(kind, location, value))


# ---- the system's part: an eventfd and a futex order nothing for the program ----


def write(fd: Location, *_: Any) -> Thread:
    yield from relaxed("add", fd, 1)


def read(fd: Location, *_: Any) -> Thread:
    yield from relaxed("exchange", fd, 0)


def poll(watched: dict[str, Any], *_: Any) -> Thread:
    yield from relaxed("await", watched["fd"], 0)


def futex_wait(word: Location, value: int, _: float) -> Thread:
    yield from relaxed("await", word, value)


def nothing(*_: Any) -> Thread:
    return
    yield


WORLD: dict[str, Callable[..., Any]] = {"write": write, "read": read, "poll": poll, "futex_wait": futex_wait, "futex_wake": nothing, "spin_pause": nothing}
CONSTANTS = {"sizeof": lambda value: 8, "POLLIN": 1, "SPIN_TURNS": 2, "EPOCH_WORKERS": 1}


# ---- the programs ----


def items(kernel: Kernel) -> Program:
    """Two threads post an item each, and a third one takes what is there, twice."""
    box, posted = Struct("box"), structs("item", 2)

    def producer(item: Struct) -> Callable[[], Thread]:
        def run() -> Thread:
            yield Operation("write", Location(item, "payload"), item.name)
            yield from kernel.mailbox_push(box, item)

        return run

    def consumer() -> Thread:
        found = []
        for _ in range(2):
            item = yield from kernel.mailbox_take(box)
            while item is not None:
                found.append((yield Operation("read", Location(item, "payload"))))
                item = yield Operation("read", Location(item, "next"))
        return found

    def finish(graph: Graph, returned: list[Any]) -> None:
        found = returned[-1]
        assert len(found) == len(set(found))
        assert len(found) == 2 or graph.last(Location(box, "newest")) is not None

    memory: dict[Location, Any] = {Location(box, "newest"): None}
    memory |= {Location(item, field): None for item in posted for field in ("next", "payload")}
    return Program([*map(producer, posted), consumer], memory, finish)


def mailbox(kernel: Kernel) -> Program:
    """A thread posts an item, another one, which is awake at first, waits for it."""
    box, item = Struct("box"), Struct("item")
    eventfd, payload = Location(box, "eventfd"), Location(item, "payload")
    box.constants["wake"] = eventfd

    def producer() -> Thread:
        yield Operation("write", payload, 7)
        yield from kernel.mailbox_post(box, item)

    def consumer() -> Thread:
        assert (yield from kernel.mailbox_wait(box)) is item
        assert (yield Operation("read", payload)) == 7

    memory = {Location(box, "newest"): None, Location(box, "asleep"): 0, eventfd: 0, payload: 0, Location(item, "next"): None}
    return Program([producer, consumer], memory)


def sleeper(kernel: Kernel) -> Program:
    """One thread sleeps until there is work, which another one gives it."""
    shared = Struct("shared")
    asleep, work, payload = (Location(shared, name) for name in ("asleep", "work", "payload"))

    def worker() -> Thread:
        yield Operation("write", payload, 7)
        yield Operation("store", work, 1, "release")
        yield from kernel.sleeper_wake(asleep)

    def sleeps() -> Thread:
        while not (yield Operation("load", work, order="acquire")):
            yield from kernel.sleeper_begin(asleep)
            if (yield Operation("load", work, order="acquire")):
                yield from kernel.sleeper_end(asleep)
            else:
                yield from kernel.sleeper_wait(asleep)
        assert (yield Operation("read", payload)) == 7

    return Program([worker, sleeps], {asleep: 0, work: 0, payload: 0})


def spinlock(kernel: Kernel) -> Program:
    """Two threads count under the lock, if they get it."""
    shared = Struct("shared")
    lock, count = Location(shared, "lock"), Location(shared, "count")

    def counts() -> Thread:
        if not (yield from kernel.spin_try(lock)):
            return 0
        before = yield Operation("read", count)
        yield Operation("write", count, before + 1)
        yield from kernel.spin_free(lock)
        return 1

    def finish(graph: Graph, returned: list[int]) -> None:
        assert graph.last(count) == sum(returned) > 0

    return Program([counts, counts], {lock: 0, count: 0}, finish)


def epoch(kernel: Kernel) -> Program:
    """A worker reads what a pointer points to, in two batches; a writer unlinks it and frees it after the grace period."""
    table, block = Struct("table"), Struct("block")
    pointer, data = Location(table, "pointer"), Location(block, "data")
    (slot,) = kernel.names["epoch_slots"] = structs("slot", 1)

    def look() -> Thread:
        found = yield Operation("load", pointer, order="acquire")
        if found is not None:
            assert (yield Operation("read", data)) == 5

    def worker() -> Thread:
        yield from kernel.epoch_online(0)
        yield from look()
        yield from kernel.epoch_quiescent(0)
        yield from look()
        yield from kernel.epoch_offline(0)

    def writer() -> Thread:
        mark: dict[str, Any] = {}
        yield Operation("store", pointer, None, "release")
        yield from kernel.epoch_mark(mark)
        if (yield from kernel.epoch_passed(mark)):
            yield Operation("write", data, FREED)

    return Program([worker, writer], {pointer: block, data: 5, Location(slot, "counter"): 0})


def epoch_of_two(kernel: Kernel) -> Program:
    """A thread unlinks under a lock, and another one, which finds that under the lock, takes the mark and frees: as the shards of the cache and its pool."""
    shared, block = Struct("shared"), Struct("block")
    pointer, lock, leaving = (Location(shared, name) for name in ("pointer", "lock", "leaving"))
    data = Location(block, "data")
    (slot,) = kernel.names["epoch_slots"] = structs("slot", 1)

    def worker() -> Thread:
        yield from kernel.epoch_online(0)
        if (yield Operation("load", pointer, order="acquire")) is not None:
            assert (yield Operation("read", data)) == 5
        yield from kernel.epoch_offline(0)

    def unlinks() -> Thread:
        yield Operation("store", pointer, None, "release")
        if (yield from kernel.spin_try(lock)):
            yield Operation("write", leaving, 1)
            yield from kernel.spin_free(lock)

    def frees() -> Thread:
        if not (yield from kernel.spin_try(lock)):
            return
        left = yield Operation("read", leaving)
        yield from kernel.spin_free(lock)
        if left:
            mark: dict[str, Any] = {}
            yield from kernel.epoch_mark(mark)
            if (yield from kernel.epoch_passed(mark)):
                yield Operation("write", data, FREED)

    memory = {pointer: block, lock: 0, leaving: 0, data: 5, Location(slot, "counter"): 0}
    return Program([worker, unlinks, frees], memory)


class Checked(NamedTuple):
    functions: Mapping[str, list[str]]
    program: Callable[[Kernel], Program]
    shared: set[str]
    #: The atomic operations that need the order they have: their number in the function, and the orders next below that are too weak.
    needed: set[tuple[str, int, str]]
    #: Why the other ones have more than this program needs.
    spare: str


EPOCH_FUNCTIONS = {EPOCH: ["epoch_online", "epoch_quiescent", "epoch_offline", "epoch_mark", "epoch_passed"]}
KERNELS = {
    "items of a mailbox": Checked(
        {MAILBOX: ["mailbox_push", "mailbox_take"]},
        items,
        {"newest", "next", "payload"},
        {("mailbox_push", 2, "acquire"), ("mailbox_take", 1, "release")},
        "producers read no item but their own",
    ),
    "sleep of a mailbox": Checked(
        {
            MAILBOX: [
                "mailbox_push",
                "mailbox_interrupt",
                "mailbox_wake",
                "mailbox_post",
                "mailbox_empty",
                "mailbox_take",
                "mailbox_begin_sleep",
                "mailbox_end_sleep",
                "mailbox_clear",
                "mailbox_wait",
            ],
        },
        mailbox,
        {"newest", "asleep", "next", "payload"},
        {("mailbox_push", 2, "acquire"), ("mailbox_wake", 1, "acq_rel"), ("mailbox_take", 1, "release"), ("mailbox_begin_sleep", 2, "acq_rel")},
        "the fences order `asleep`",
    ),
    "sleeper": Checked(
        {FUTEX: ["sleeper_wake", "sleeper_begin", "sleeper_end", "sleeper_wait"]},
        sleeper,
        set(),
        {("sleeper_wake", 1, "acq_rel"), ("sleeper_begin", 2, "acq_rel")},
        "the work has a release and acquire pair of its own, and the fences order `asleep`",
    ),
    "spinlock": Checked(
        {SPINLOCK: ["spin_try", "spin_free"]},
        spinlock,
        set(),
        {("spin_try", 2, "release"), ("spin_free", 1, "relaxed")},
        "who takes the lock has nothing to release yet",
    ),
    "epoch": Checked(
        EPOCH_FUNCTIONS,
        epoch,
        {"counter"},
        {
            *((f"epoch_{name}", 2, "acq_rel") for name in ("online", "quiescent")),
            *((f"epoch_{name}", 1, "relaxed") for name in ("quiescent", "offline", "passed")),
            ("epoch_mark", 1, "acq_rel"),
            ("epoch_mark", 2, "relaxed"),
        },
        "a writer that finds a worker online waits for a later value",
    ),
    "epoch, unlinked by another thread": Checked(
        {**EPOCH_FUNCTIONS, SPINLOCK: ["spin_try", "spin_free"]},
        epoch_of_two,
        {"counter"},
        {
            ("epoch_online", 2, "acq_rel"),
            ("epoch_offline", 1, "relaxed"),
            ("epoch_mark", 1, "acq_rel"),
            ("epoch_mark", 2, "relaxed"),
            ("epoch_passed", 1, "relaxed"),
            ("spin_try", 2, "release"),
            ("spin_free", 1, "relaxed"),
        },
        "the worker has one batch here",
    ),
}


def kernel_of(checked: Checked, weakened: Mapping[Site, str] | None = None, edits: Mapping[str, str] | None = None) -> Kernel:
    return Kernel(checked.functions, WORLD, CONSTANTS, checked.shared, weakened, edits)


def fails(checked: Checked, weakened: Mapping[Site, str] | None = None, edits: Mapping[str, str] | None = None) -> bool:
    try:
        Checker(checked.program(kernel_of(checked, weakened, edits))).run()
    except Violation:
        return True
    return False


@pytest.mark.parametrize("name", KERNELS)
def test_no_execution_goes_wrong(name: str) -> None:
    checked = KERNELS[name]
    assert Checker(checked.program(kernel_of(checked))).run() > 1


@pytest.mark.parametrize("name", KERNELS)
def test_each_order_that_is_needed_is_missed(name: str) -> None:
    """Of each atomic operation the orders next below: the checker finds a wrong execution with exactly those that are listed."""
    checked = KERNELS[name]
    kernel = kernel_of(checked)
    tried = {(site, order) for site in kernel.sites for order in weaker(kernel.atomics[site.operation])}
    assert tried
    missed = {(site.function, site.number, order) for site, order in tried if fails(checked, {site: order})}
    assert missed == checked.needed, f"the others are spare: {checked.spare}"


@pytest.mark.parametrize(
    ("path", "line", "mutant", "names"),
    [
        (ATOMICS, "__atomic_thread_fence(__ATOMIC_SEQ_CST)", "__atomic_thread_fence(__ATOMIC_ACQ_REL)", {"sleep of a mailbox", "sleeper", "epoch"}),
        (ATOMICS, "__atomic_store_n((p), (v), __ATOMIC_RELEASE)", "__atomic_store_n((p), (v), __ATOMIC_RELAXED)", {"spinlock", "epoch"}),
        (ATOMICS, "__atomic_load_n((p), __ATOMIC_ACQUIRE)", "__atomic_load_n((p), __ATOMIC_RELAXED)", {"epoch"}),
        (ATOMICS, "__atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)", "__atomic_exchange_n((p), (v), __ATOMIC_RELEASE)", {"spinlock"}),
        (ATOMICS, "(p), (void *)0, __ATOMIC_ACQ_REL", "(p), (void *)0, __ATOMIC_RELAXED", {"items of a mailbox", "sleep of a mailbox"}),
        (MAILBOX, "    atomic_fence()\n    if", "    if", {"sleep of a mailbox"}),
        (MAILBOX, "    atomic_fence()\n    return", "    return", {"sleep of a mailbox"}),
        (FUTEX, "    atomic_store32(asleep, 1)\n    atomic_fence()", "    atomic_fence()\n    atomic_store32(asleep, 1)", {"sleeper"}),
        (SPINLOCK, "atomic_exchange32(lock, 1)", "atomic_peek32(lock)", {"spinlock"}),
        (EPOCH, "would free at once.\n    atomic_fence()", "would free at once.", {"epoch"}),
    ],
)
def test_mutants_of_the_source_are_caught(path: str, line: str, mutant: str, names: set[str]) -> None:
    """What is checked is what stands in the tree: an edit there is found."""
    text = (ROOT / path).read_text()
    assert line in text
    edits = {path: text.replace(line, mutant)}
    assert {name for name in names if not fails(KERNELS[name], edits=edits)} == set()
