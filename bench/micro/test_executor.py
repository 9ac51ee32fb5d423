"""What a query costs that a Python plugin answers: to the executor's thread and back, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fastdns.bench.micro.conftest import Timed
from fastdns.bench.micro.loops import Answering
from fastdns.bench.micro.replay import Replay
from fastdns.bench.replay import BATCH, query
from fastdns.engine.chains import ServerSpec, ZoneSpec
from fastdns.engine.engine import Engine
from fastdns.executor.handler import PythonHandler
from fastdns.plugin import PASS, Plugin
from fastdns.query import Query, Result

#: Batches of a round: processor time of another thread is not known to the microsecond.
BATCHES = 200


class Answers(Plugin):
    def serve(self, query: Query) -> Result:
        return query.reply("A 192.0.2.1", ttl=5)


class Passes(Plugin):
    def serve(self, query: Query) -> Result:
        return PASS


Served = Callable[[Plugin], Replay]


@pytest.fixture
def serve() -> Iterator[Served]:
    engine = Engine(1)
    listener = engine.bind("127.0.0.1", 0)

    def publish(plugin: Plugin) -> Replay:
        handlers = [PythonHandler("plugin", plugin), Answering("answers")]
        engine.publish([ServerSpec("dns://127.0.0.1:0", [listener], [ZoneSpec(".", handlers)])])
        return Replay(engine, listener)

    yield publish
    listener.close()


@pytest.mark.parametrize(("plugin", "answers"), [(Answers(), 1), (Passes(), 0)], ids=["reply", "pass"])
def test_hand_over(timed: Timed, serve: Served, plugin: Plugin, answers: int) -> None:
    replay = serve(plugin)
    batch = [query(i, f"host-{i}.example.org.", 1, False) for i in range(BATCH)]

    def ask() -> list[bytes]:
        for _ in range(BATCHES):
            replies = list(replay.serve(batch))
            while len(replies) < BATCH and (more := replay.wake(10)):
                replies += more
        return replies

    replies = timed(BATCH * BATCHES, ask)
    assert sorted(reply[:2] for reply in replies) == sorted(message[:2] for message in batch)
    assert {(reply[3] & 15, reply[7]) for reply in replies} == {(0, answers)}
