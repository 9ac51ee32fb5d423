"""A run: load with checked answers, and faults one after the other, as a seed says."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.chaos.faults import Fault, World
from tests.chaos.target import Target
from tests.load import Load
from tests.preload import Preload, environment
from tests.soak import COREFILE, OTHER, PLUGIN, Asker, Cluster, Findings, Upstreams, address
from tests.waiting import LIMIT, until

#: Octets that a process may have more than the first one had at the start, beside a quarter of that.
GROWTH = 24 << 20
#: Seconds after a fault in which what it did may still fail questions: probes of upstreams, connections that were closed.
AFTERMATH = 3.0
TESTS = Path(__file__).parent.parent


class Trouble:
    """Which questions may fail, and when."""

    def __init__(self) -> None:
        self.spans: list[tuple[frozenset[str], float, float]] = []

    def begin(self, kinds: frozenset[str]) -> None:
        self.spans.append((kinds, time.monotonic(), float("inf")))

    def end(self) -> None:
        kinds, began, _ = self.spans.pop()
        self.spans.append((kinds, began, time.monotonic() + AFTERMATH))

    def excuses(self, kind: str, begun: float) -> bool:
        """Whether a question of that kind, which began then, has met a fault that may fail it."""
        now = time.monotonic()
        return any(kind in kinds and begun < until and now > since for kinds, since, until in self.spans[-20:])


class ChaosAsker(Asker):
    def __init__(self, target: Target, cluster: Cluster, upstreams: Upstreams, seed: int, trouble: Trouble) -> None:
        self.trouble = trouble
        super().__init__(target, cluster, upstreams, seed)

    def note(self, what: str, begun: float, why: str) -> None:
        if self.trouble.excuses(what, begun):
            self.found.excused[what] += 1
        else:
            super().note(what, begun, why)


def told(target: Target) -> str:
    """The end of the output, without the zone transfers."""
    return "\n".join([line for line in target.log().splitlines() if "transfer" not in line and "AXFR" not in line][-40:])


def chaos(folder: Path, seconds: float, seed: int, faults: Sequence[type[Fault]], rate: int = 1000) -> dict[str, Any]:
    """Runs for so long; the figures. Raises AssertionError where something is lost or wrong, or memory has grown."""
    (folder / "echo.py").write_text(PLUGIN)
    clock, buffers = Preload(TESTS / "robustness/clock.c", folder), Preload(TESTS / "chaos/buffers.c", folder)
    cluster, upstreams, numbers = Cluster(folder / "cluster.jsonl"), Upstreams(), itertools.count(1)
    luck = random.Random(seed)
    trouble = Trouble()
    schedule: list[str] = []
    loads: list[dict[str, Any]] = []
    #: What came in the time of each of them.
    met: list[list[str]] = [[]]

    def corefile() -> str:
        number = next(numbers)
        filled = COREFILE.replace("NUMBER", address(number)).replace("UPSTREAMS", " ".join(one.address for one in upstreams.servers))
        return filled + (OTHER if number % 2 else "")

    with upstreams.servers[0], upstreams.servers[1], Target(folder, corefile(), "-workers", "2", env=environment(clock, buffers)) as target:
        target.write(corefile())
        world = World(target, cluster, upstreams, corefile, clock, buffers)
        askers = [ChaosAsker(target, cluster, upstreams, seed + i, trouble) for i in range(2)]
        load = Load(target.port, rate, seconds + LIMIT, window=256)
        time.sleep(2)
        first = most = target.memory()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            fault = luck.choice(faults)(world)
            schedule.append(type(fault).__name__)
            met[-1].append(schedule[-1])
            if fault.loses:
                loads.append(load.result())
                met.append([])
            trouble.begin(fault.excuses)
            try:
                fault.begin()
                time.sleep(luck.uniform(*fault.lasts))
            except AssertionError as error:
                raise AssertionError(f"{error}\n{schedule}\n{told(target)}") from error
            finally:
                fault.end()
            trouble.end()
            if fault.loses:
                load = Load(target.port, rate, seconds + LIMIT, window=256)
            time.sleep(luck.uniform(0.2, 2.0))
            most = max(most, target.memory())
            assert most <= first * 1.25 + GROWTH, f"{most} octets after {schedule}, {first} at the start"
        upstreams.turn(0)
        time.sleep(AFTERMATH)
        loads.append(load.result())
        for asker in askers:
            asker.going = False
        for asker in askers:
            asker.join(LIMIT)
        cluster.change()
        until(lambda: target.answers("newest.s0.shop.svc.cluster.local.") == [address(cluster.versions[0])], "the last change of the cluster")
        found = Findings()
        for asker in askers:
            found.asked += asker.found.asked
            found.failed += asker.found.failed
            found.excused += asker.found.excused
            found.wrong += asker.found.wrong
        report = {
            "seed": seed,
            "faults": dict(Counter(schedule)),
            "asked": dict(found.asked),
            "failed": dict(found.failed),
            "failed by a fault": dict(found.excused),
            "wrong": found.wrong[:5],
            "load": {key: sum(each[key] for each in loads) for key in ("sent", "lost", "drops", "wrong")},
            "loads that lost": [(each["lost"], each["drops"], faults) for each, faults in zip(loads, met, strict=True) if each["lost"] > each["drops"]],
            "memory limited by": dict(world.limits),
            "sends that failed": buffers.count(),
            "memory at the start and at most, KiB": [first // 1024, most // 1024],
        }
        text = f"{json.dumps(report, indent=1)}\n{schedule}\n{told(target)}"
        clock.close()
        buffers.close()
        assert not found.wrong, text
        assert not found.failed, text
        assert all(each["wrong"] == 0 and each["lost"] <= each["drops"] for each in loads), text
        return report
