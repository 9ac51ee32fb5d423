"""Turns of clients at a policy agent, with agents and a clock of the test's."""

from __future__ import annotations

import heapq
import ipaddress
from collections import Counter, deque

import pytest

from fastdns.plugins.fqdn_policy._turns import TurnsTest

MS = 1_000_000
TIMEOUT = 50 * MS


def packed(text: str) -> bytes:
    return ipaddress.ip_address(text).packed


class Simulation:
    """Clients that ask at given rates, an agent with `servers` that take `each` ns for a message, and the server's turns in between."""

    def __init__(self, each: int, servers: int = 1, most: int = 1024) -> None:
        self.turns = TurnsTest(most, TIMEOUT)
        self.each = each
        self.free = [0] * servers
        #: When the agent acknowledges messages: time, number, when each was sent.
        self.acknowledgements: list[tuple[int, int, int]] = []
        self.asked: dict[int, tuple[str, int]] = {}
        self.results: dict[str, Counter[str]] = {}

    def run(self, rates: dict[str, int], seconds: float) -> None:
        """`rates`: questions a second, by address."""
        # Their questions come in between each other.
        phase = 10**9 // max(rates.values()) // 3
        events = sorted(
            (round(number * 10**9 / rate) + place * phase + place * 19 * MS, client)
            for place, (client, rate) in enumerate(rates.items())
            for number in range(int(seconds * rate))
        )
        waiting: deque[int] = deque()
        for now, client in events:
            self._acknowledge(now)
            self._expire(waiting, now)
            number = self.turns.add(packed(client))
            self.asked[number] = client, now
            waiting.append(number)
            self._send(now)
        self._acknowledge(1 << 62)

    def _expire(self, waiting: deque[int], now: int) -> None:
        while waiting and self.asked.get(waiting[0], ("", 0))[1] <= now - TIMEOUT:
            number = waiting.popleft()
            if number in self.asked:
                self.turns.remove(number)
                self._end(number, "late")

    def _end(self, number: int, result: str) -> None:
        client, _ = self.asked.pop(number)
        self.results.setdefault(client, Counter())[result] += 1

    def _send(self, now: int) -> None:
        while (number := self.turns.send(now)) >= 0:
            begins = max(now, heapq.heappop(self.free))
            heapq.heappush(self.free, begins + self.each)
            heapq.heappush(self.acknowledgements, (begins + self.each, number, now))

    def _acknowledge(self, until: int) -> None:
        while self.acknowledgements and self.acknowledgements[0][0] <= until:
            now, number, sent = heapq.heappop(self.acknowledgements)
            self.turns.taken(sent, now)
            if number in self.asked:
                self._end(number, "taken" if now - self.asked[number][1] < TIMEOUT else "late")
            self._send(now)


FLOOD = {"192.0.2.1": 3000}


def apart(addresses: str, networks: bool) -> dict[str, int]:
    """Five clients that ask ten times a second, and share no queue with the floods below nor with each other."""
    turns = TurnsTest(16, TIMEOUT)
    taken = {turns.queue(packed(flood)) for flood in ("192.0.2.1", "203.0.113.1", "2001:db8::1")}
    clients: dict[str, int] = {}
    for number in range(2, 250):
        client = addresses.format(number)
        queue = turns.queue(packed(client))
        if len(clients) < 5 and queue not in taken and not (networks and queue[0] in {network for network, _ in taken}):
            taken.add(queue)
            clients[client] = 10
    return clients


OTHERS = apart("198.51.{}.1", True)
NEIGHBOURS = apart("192.0.2.{}", False)
SLOW = {"fast": 1 * MS // 10, "1,000 a second": 1 * MS, "100 a second": 10 * MS}


def shares(results: dict[str, Counter[str]], clients: dict[str, int]) -> list[float]:
    return [results[client]["taken"] / results[client].total() for client in clients]


@pytest.mark.parametrize("each", SLOW.values(), ids=SLOW)
@pytest.mark.parametrize("neighbours", [False, True])
def test_a_flood_takes_the_agent_from_nobody(each: int, neighbours: bool) -> None:
    """3,000 new names a second of one client; others of other networks, or of its own, lose none but of the first second, in which the agent's pace shows."""
    others = NEIGHBOURS if neighbours else OTHERS
    simulation = Simulation(each)
    simulation.run(FLOOD | others, 1)
    simulation.results.clear()
    simulation.asked.clear()
    after = Simulation(each)
    after.turns = simulation.turns
    after.run(FLOOD | others, 4)
    assert min(shares(after.results, others)) >= 0.97, after.results
    if each < 10 * MS:
        assert after.results["192.0.2.1"]["taken"] > 0.7 * min(12_000, 4 * 10**9 / each - 200), "what others leave is the client's"


@pytest.mark.parametrize("network", ["203.0.113.{}", "2001:db8:0:{:x}::1"])
def test_a_client_with_many_addresses_has_the_turns_of_one_network(network: str) -> None:
    flood = {network.format(number): 30 for number in range(100)}
    simulation = Simulation(MS)
    simulation.run(flood | OTHERS, 3)
    assert min(shares(simulation.results, OTHERS)) >= 0.95, simulation.results


def test_an_agent_that_takes_its_time_but_many_at_once() -> None:
    """Acknowledgements after 30 ms, of any number of messages: none are late once the window has grown."""
    simulation = Simulation(30 * MS, servers=1000)
    simulation.run({f"198.51.100.{number}": 100 for number in range(20)}, 3)
    results = sum(simulation.results.values(), Counter())
    assert results["taken"] > 0.95 * results.total(), results


def test_an_agent_that_becomes_slower_is_measured_again() -> None:
    """From 1 ms to 30 ms, still many at once: for ten seconds at most the window is small."""
    simulation = Simulation(MS, servers=1000)
    rates = {f"198.51.100.{number}": 50 for number in range(20)}
    simulation.run(rates, 2)
    later = Simulation(30 * MS, servers=1000)
    later.turns = simulation.turns
    later.run(rates, 15)
    last = Simulation(30 * MS, servers=1000)
    last.turns = simulation.turns
    last.run(rates, 2)
    results = sum(last.results.values(), Counter())
    assert results["taken"] > 0.95 * results.total(), results


def test_networks_and_then_their_addresses_take_turns() -> None:
    turns = TurnsTest(16, TIMEOUT)
    numbers = {turns.add(packed("192.0.2.1")): "flood" for _ in range(50)}
    numbers |= {turns.add(packed(f"198.51.{number}.1")): "other" for number in range(5)}
    numbers |= {turns.add(packed("192.0.2.77")): "neighbour"}
    gone = next(iter(numbers))
    turns.remove(gone)
    turns.remove(gone)
    order = [numbers[number] for number in iter(turns.next, -1)]
    assert len(order) == 55
    # Two networks may share a queue, by the hash.
    assert order.index("neighbour") <= 12
    assert order[:20].count("other") == 5


def test_messages_without_an_acknowledgement_have_a_budget() -> None:
    turns = TurnsTest(16, TIMEOUT)
    assert [turns.extend(10**9) for _ in range(20)] == [True] * 16 + [False] * 4
    assert [turns.extend(10**9 + 70 * MS) for _ in range(3)] == [True, True, False]
