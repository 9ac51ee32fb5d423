"""All executions of a small program under RC11, the repaired memory model of C11 (Lahav and others, PLDI 2017), with C++20's release sequences.

A thread is a generator. It yields operations and gets what they return; in between it may compute with what it got, and nothing else.

An execution is a graph: events in program order (``po``), for each read the write that it reads (``rf``), and for each location the order of its
writes (``mo``). As RC11 has ``po`` and ``rf`` without a circle, each graph can be built event by event, such that a read finds its write there. What happens
before an event (``hb``) is then known when it is added, and a graph that contradicts the model need not be built further.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

#: Events of one thread: more mean a loop without an end.
EVENTS_MAX = 60

ACQUIRES = ("acquire", "acq_rel", "seq_cst")
RELEASES = ("release", "acq_rel", "seq_cst")


class Struct:
    """A block of memory, by its address alone: what its fields hold is in the graph."""

    def __init__(self, name: str, **constants: Any) -> None:
        self.name = name
        self.constants = constants

    def __repr__(self) -> str:
        return self.name


class Location(NamedTuple):
    struct: Struct
    field: str

    def __repr__(self) -> str:
        return f"{self.struct}.{self.field}"


class Operation(NamedTuple):
    #: load, store, exchange, add (gives the new value), swap (compare and exchange, gives whether), fence; not atomic: read, write; and await: a relaxed
    #: load that waits until it finds another value than ``value``.
    kind: str
    location: Location | None = None
    value: Any = None
    order: str = "relaxed"
    expected: Any = None
    #: Of a swap that fails.
    otherwise: str = "relaxed"


Thread = Generator[Operation, Any, Any]
#: The freed value: reading it is a violation.
FREED = Struct("freed memory")


class Violation(Exception):
    """An execution in which the program goes wrong."""


class Event(NamedTuple):
    thread: int
    location: Location | None
    writes: bool
    value: Any
    atomic: bool
    #: What happens before it, a bit an event.
    before: int
    #: The index of the write that it reads; -1: it does not read.
    source: int
    #: What a read of it acquires.
    releases: int
    is_sc: bool
    text: str


@dataclass(frozen=True)
class Progress:
    """Of one thread."""

    results: tuple[Any, ...] = ()
    #: Events of the thread that read, by thread and position of their write: with ``mo`` they make the graph.
    sources: tuple[tuple[int, int], ...] = ()
    events: int = 0
    before: int = 0
    #: What an acquire fence would acquire.
    pending: int = 0
    #: What the last release fence releases by later writes.
    fenced: int = 0


@dataclass(frozen=True)
class Graph:
    events: tuple[Event, ...]
    #: Thread and position there, of each event.
    names: tuple[tuple[int, int], ...]
    #: Indices of writes by location, oldest first.
    order: Mapping[Location, tuple[int, ...]]
    threads: tuple[Progress, ...]

    def key(self) -> tuple[Any, ...]:
        return (
            tuple(thread.sources for thread in self.threads),
            tuple((location, tuple(self.names[i] for i in writes)) for location, writes in self.order.items() if len(writes) > 1),
            tuple(thread.events for thread in self.threads),
        )

    def last(self, location: Location) -> Any:
        return self.events[self.order[location][-1]].value


class Program(NamedTuple):
    threads: Sequence[Callable[[], Thread]]
    #: Locations and their first values.
    memory: Mapping[Location, Any]
    #: Called with each execution's graph and what its threads returned; it may raise AssertionError.
    finish: Callable[[Graph, list[Any]], None] = lambda graph, returned: None


class Checker:
    """Builds the graphs of a program. ``executions`` counts those that are complete."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.seen: set[tuple[Any, ...]] = set()
        self.steps: dict[tuple[int, tuple[Any, ...]], tuple[Operation | None, Any]] = {}
        self.executions = 0

    def run(self) -> int:
        """The number of executions. Raises Violation with the first one that goes wrong."""
        events = tuple(
            Event(-1, location, True, value, True, 0, -1, 0, False, f"{location} = {value} at first") for location, value in self.program.memory.items()
        )
        first = Progress(before=(1 << len(events)) - 1)
        order = {event.location: (i,) for i, event in enumerate(events) if event.location}
        self._explore(Graph(events, tuple((-1, i) for i in range(len(events))), order, (first,) * len(self.program.threads)))
        return self.executions

    def _next(self, graph: Graph, number: int) -> tuple[Operation | None, Any]:
        """What a thread does next, or None and what it returned. Threads have no state but the results that they got."""
        results = graph.threads[number].results
        step = self.steps.get((number, results))
        if step is None:
            thread = self.program.threads[number]()
            try:
                operation = next(thread)
                for result in results:
                    operation = thread.send(result)
                step = operation, None
            except StopIteration as end:
                step = None, end.value
            except AssertionError as error:
                raise violation(graph, str(error)) from None
            self.steps[number, results] = step
        if graph.threads[number].events > EVENTS_MAX:
            raise RuntimeError(f"thread {number} does not end: {graph.events[-1].text}")
        return step

    def _explore(self, graph: Graph) -> None:
        key = graph.key()
        if key in self.seen:
            return
        self.seen.add(key)
        steps = [self._next(graph, i) for i in range(len(graph.threads))]
        # Only what reads can miss what another thread has not done yet, so all else comes first, and in one order.
        for i, (operation, _) in enumerate(steps):
            if operation is not None and operation.kind in ("store", "write", "fence", "read"):
                for following in self._add(graph, i, operation):
                    self._explore(following)
                return
        moved = False
        for i, (operation, _) in enumerate(steps):
            if operation is not None:
                for following in self._add(graph, i, operation):
                    moved = True
                    self._explore(following)
        if not moved:
            if any(operation is not None for operation, _ in steps):
                raise violation(graph, "a thread waits for ever")
            self.executions += 1
            try:
                self.program.finish(graph, [returned for _, returned in steps])
            except AssertionError as error:
                raise violation(graph, str(error)) from None

    # ---- one event more ----

    def _add(self, graph: Graph, number: int, operation: Operation) -> Iterator[Graph]:
        thread = graph.threads[number]
        if operation.kind == "fence":
            before = thread.before | (thread.pending if operation.order in ACQUIRES else 0)
            bit = 1 << len(graph.events)
            event = Event(number, None, False, None, True, before, -1, 0, operation.order == "seq_cst", f"{operation.order} fence")
            after = replace(thread, before=before | bit, fenced=before | bit if operation.order in RELEASES else thread.fenced)
            yield from put(graph, event, after, None)
        elif operation.kind in ("store", "write"):
            yield from self._store(graph, number, operation)
        else:
            yield from self._load(graph, number, operation)

    def _store(self, graph: Graph, number: int, operation: Operation) -> Iterator[Graph]:
        thread, location, atomic = graph.threads[number], operation.location, operation.kind == "store"
        assert location is not None
        check_race(graph, number, location, True, atomic)
        bit = 1 << len(graph.events)
        releases = (thread.before | bit if operation.order in RELEASES else thread.fenced) if atomic else 0
        event = Event(number, location, True, operation.value, atomic, thread.before, -1, releases, False, describe(operation))
        writes = graph.order[location]
        for place in range(oldest_visible(graph, thread.before, location) + 1, len(writes) + 1):
            # Nothing comes between an atomic read-modify-write and the write that it reads.
            if place == len(writes) or graph.events[writes[place]].source < 0:
                yield from put(graph, event, replace(thread, before=thread.before | bit), None, place)

    def _load(self, graph: Graph, number: int, operation: Operation) -> Iterator[Graph]:
        thread, location, atomic = graph.threads[number], operation.location, operation.kind != "read"
        assert location is not None
        check_race(graph, number, location, operation.kind in ("exchange", "add"), atomic)
        writes, bit = graph.order[location], 1 << len(graph.events)
        for place in range(oldest_visible(graph, thread.before, location), len(writes)):
            source = writes[place]
            found = graph.events[source].value
            if found is FREED:
                raise violation(graph, f"thread {number} reads freed memory: {describe(operation)}")
            if operation.kind == "await" and found == operation.value:
                continue
            succeeds = operation.kind in ("exchange", "add") or (operation.kind == "swap" and found == operation.expected)
            if succeeds and place + 1 < len(writes) and graph.events[writes[place + 1]].source >= 0:
                continue  # another one has read it
            order = operation.otherwise if operation.kind == "swap" and not succeeds else operation.order
            acquired = graph.events[source].releases if atomic else 0
            before = thread.before | (acquired if order in ACQUIRES else 0)
            after = replace(thread, before=before | bit, pending=thread.pending | acquired, sources=(*thread.sources, graph.names[source]))
            value = found + operation.value if operation.kind == "add" else operation.value
            text = f"{describe(operation)} finds {found}"
            if succeeds:
                check_race(graph, number, location, True, True)
                releases = graph.events[source].releases | (before | bit if order in RELEASES else thread.fenced)
                event = Event(number, location, True, value, True, before, source, releases, False, text)
                result = {"exchange": found, "add": value, "swap": True}[operation.kind]
                yield from put(graph, event, after, result, place + 1)
            else:
                event = Event(number, location, False, None, atomic, before, source, 0, False, text)
                yield from put(graph, event, after, False if operation.kind == "swap" else found)


def oldest_visible(graph: Graph, before: int, location: Location) -> int:
    """The place in ``mo`` of the newest write that happens before, or that a read which happens before has found: nothing older is seen (coherence)."""
    writes = graph.order[location]
    for place in range(len(writes) - 1, 0, -1):
        if before >> writes[place] & 1:
            return place
        if any(event.source == writes[place] and before >> i & 1 for i, event in enumerate(graph.events)):
            return place
    return 0


def check_race(graph: Graph, number: int, location: Location, writes: bool, atomic: bool) -> None:
    """Raise Violation where the access is not ordered with an earlier one, of which one writes and one is not atomic."""
    before = graph.threads[number].before
    for i, event in enumerate(graph.events):
        if event.location == location and event.thread != number and (writes or event.writes) and not (atomic and event.atomic) and not before >> i & 1:
            raise violation(graph, f"data race of thread {number} at {location} with: {event.text}")


def put(graph: Graph, event: Event, thread: Progress, result: Any, place: int = 0) -> Iterator[Graph]:
    """The graph with one event more, unless it contradicts the order of the sequentially consistent fences. A write stands at a place in ``mo``."""
    threads, order, index = list(graph.threads), graph.order, len(graph.events)
    position = threads[event.thread].events
    threads[event.thread] = replace(thread, results=(*thread.results, result), events=position + 1)
    if event.writes:
        assert event.location is not None
        writes = graph.order[event.location]
        order = {**graph.order, event.location: (*writes[:place], index, *writes[place:])}
    made = Graph((*graph.events, event), (*graph.names, (event.thread, position)), order, tuple(threads))
    if fences_are_ordered(made):
        yield made


def fences_are_ordered(graph: Graph) -> bool:
    """Whether ``psc`` has no circle: one fence comes before another one by ``hb``, or by what is read and written behind the one and before the other."""
    fences = [i for i, event in enumerate(graph.events) if event.is_sc]
    if len(fences) < 2:
        return True
    place = {i: 2 * at for writes in graph.order.values() for at, i in enumerate(writes)}
    place |= {i: place[event.source] + 1 for i, event in enumerate(graph.events) if event.source >= 0 and not event.writes}
    behind: dict[int, dict[Location, int]] = {fence: {} for fence in fences}
    ahead: dict[int, dict[Location, int]] = {fence: {} for fence in fences}
    for i, event in enumerate(graph.events):
        for fence in fences:
            if event.location is None:
                continue
            if event.before >> fence & 1:
                behind[fence][event.location] = min(place[i], behind[fence].get(event.location, place[i]))
            elif graph.events[fence].before >> i & 1:
                ahead[fence][event.location] = max(place[i], ahead[fence].get(event.location, place[i]))
    edges = {
        a: [b for b in fences if a != b and (graph.events[b].before >> a & 1 or any(at < ahead[b].get(location, -1) for location, at in behind[a].items()))]
        for a in fences
    }
    left = set(fences)
    while free := {a for a in left if not any(a in edges[b] for b in left)}:
        left -= free
    return not left


def describe(operation: Operation) -> str:
    value = "" if operation.value is None else f" {operation.value}"
    return f"{operation.kind} {operation.location}{value} {operation.order if operation.kind not in ('read', 'write') else ''}".rstrip()


def violation(graph: Graph, what: str) -> Violation:
    lines = [f"    thread {event.thread}: {event.text}" for event in graph.events if event.thread >= 0]
    return Violation("\n".join([what, *lines]))
