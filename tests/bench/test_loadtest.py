"""``fastdns-bench load``, ``worker`` and ``merge`` as commands, and the conditions that they judge by."""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fastdns.bench import cli
from fastdns.bench.find import find
from fastdns.bench.loadtest import parse_steps, parse_target
from fastdns.bench.merge import read
from fastdns.bench.result import Plan, Result, Target
from fastdns.bench.thresholds import FIGURES, ThresholdError, parse, parse_all
from fastdns.bench.worker import share_of
from tests.bench.scripted import Scripted, reply
from tests.server import free_port
from tests.waiting import LIMIT, until


@pytest.fixture
def questions(tmp_path: Path) -> str:
    path = tmp_path / "queries.txt"
    path.write_text("".join(f"n{i}.example.org A\n" for i in range(20)))
    return str(path)


def good(query: bytes) -> list[bytes]:
    return [reply(query, "10.0.0.1")]


def lying(query: bytes) -> list[bytes]:
    """Another question than the one asked."""
    made = bytearray(reply(query, "10.0.0.1"))
    made[13] ^= 1
    return [bytes(made)]


@pytest.mark.parametrize(
    ("fail_if", "status"),
    [([], 0), (["lost>0"], 0), (["p99>10s", "wrong>0%"], 0), (["rate>1"], 1), (["lost>0", "NOERROR>99.9%"], 1), (["max>0.001us"], 1)],
)
def test_status_by_conditions(questions: str, tmp_path: Path, fail_if: list[str], status: int, capsys: pytest.CaptureFixture[str]) -> None:
    with Scripted(good) as server:
        arguments = ["load", f"127.0.0.1:{server.port}", "--queries", questions, "--rate", "400", "--seconds", "0.1", "--json", str(tmp_path / "out.json")]
        for each in fail_if:
            arguments += ["--fail-if", each]
        assert cli.main(arguments) == status
    said = capsys.readouterr()
    assert "answered  40 of 40" in said.out
    assert re.search(r"^  spread    [\d,]+ to [\d,]+ /s, p99 \S+ \S+ to \S+ \S+, by the second$", said.out, re.M)
    assert re.search(r"^  curve     p0 .*, p50 .*, p99\.999 .*, p100 ", said.out, re.M)
    assert ("FAILED" in said.err) == bool(status)
    assert [result.answered for result in read(str(tmp_path / "out.json"))] == [40]


def test_wrong_answers_fail_a_run(questions: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Scripted(lying) as server:
        assert cli.main(["load", f"127.0.0.1:{server.port}", "--queries", questions, "--rate", "200", "--seconds", "0.1"]) == 1
    assert "FAILED: wrong replies: question 20" in capsys.readouterr().err


def test_a_run_without_an_answer_fails(questions: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Scripted(lambda query: []) as server:
        given = [f"127.0.0.1:{server.port}", "--queries", questions, "--rate", "200", "--seconds", "0.1", "--timeout", "0.1"]
        assert cli.main(["load", *given]) == 1
        assert capsys.readouterr().err == "FAILED: nothing was answered\n"
        assert cli.main(["worker", *given, "--workers", "1", "--index", "0", "--start", str(time.time() + 1)]) == 1


def test_a_search_says_that_nothing_answers(questions: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["load", f"127.0.0.1:{free_port()}", "--queries", questions, "--find", "p99<10s", "--rate", "1000", "--seconds", "0.1", "--timeout", "0.1"]
    assert cli.main(given) == 1
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said] == ["1,000", "1,000", "100", "100", "no"]
    assert said[-1] == "no rate holds (nothing answers)"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_load_and_not_the_report(questions: str, tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "out.json"
    with Scripted(good) as server:
        given = ["load", f"127.0.0.1:{server.port}", "--queries", questions, "--rate", "200", "--seconds", "3600", "--json", str(out)]
        with command(*given) as load:
            until(lambda: server.queries > 20, "queries")
            load.send_signal(number)
            said, err = load.communicate(timeout=LIMIT)
    assert (load.returncode, err) == (0, "")
    assert re.search(r" of 3600 s, stopped, 200 /s due, ", said)
    (result,) = read(str(out))
    assert result.stopped
    assert 20 <= result.answered <= server.queries
    assert f"answered  {result.answered:,} of {result.sent:,}" in said


def test_a_signal_ends_a_search_with_what_it_has(questions: str) -> None:
    with Scripted(good) as server:
        given = ["load", f"127.0.0.1:{server.port}", "--queries", questions, "--rate", "50", "--seconds", "0.2", "--find", "p99<10s"]
        with command(*given) as load:
            until(lambda: server.queries > 20, "queries")
            load.send_signal(signal.SIGINT)
            said, _ = load.communicate(timeout=LIMIT)
    assert (load.returncode, "stopped)" in said) == ((0, True) if "highest: " in said else (1, True))


@contextmanager
def command(*words: str) -> Iterator[subprocess.Popen[str]]:
    """fastdns-bench in a process of its own."""
    code = "import sys; from fastdns.bench import cli; sys.exit(cli.main())"
    load = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield load
    finally:
        load.kill()
        load.communicate()


@pytest.mark.parametrize("arguments", [["--rate", "10", "--seconds", "0"], ["--cpus", "9999"], ["--window", "0"]])
def test_what_cannot_be_run(questions: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["load", "127.0.0.1:9", "--queries", questions, *arguments]) == 2
    assert capsys.readouterr().err.startswith("fastdns-bench load: ")


def test_the_highest_rate_is_found(questions: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a server that fails what exceeds 30 queries in 0.1 s: at 600 a second these are half of a run's."""
    seen: deque[float] = deque([0.0] * 30, 30)

    def script(query: bytes) -> list[bytes]:
        now = time.monotonic()
        if now - seen[0] < 0.1:
            return [reply(query, rcode=2)]
        seen.append(now)
        return good(query)

    with Scripted(script) as server:
        status = cli.main(
            ["load", f"127.0.0.1:{server.port}", "--queries", questions, "--seconds", "0.1", "--rate", "50", "--find", "p99<10s,lost<50%,SERVFAIL<50%"]
        )
    said = capsys.readouterr().out
    assert status == 0
    highest = float(next(line for line in said.splitlines() if line.startswith("highest")).split()[1].replace(",", ""))
    assert 100 <= highest <= 620


def test_the_search_goes_down_too_and_never_beyond_what_holds() -> None:
    target = Target("127.0.0.1")

    def run(plan: Plan) -> Result:
        held = plan.rate <= 333
        return Result("x", target, plan, seconds=1, sent=100, answered=100 if held else 0, lost=0 if held else 100)

    for first in (1000, 10):
        found = find(run, Plan(rate=1), parse_all("lost<1%"), first=first)
        assert 333 * 0.95 <= found.rate <= 333
    assert find(run, Plan(rate=1), parse_all("lost<1%"), first=10, highest=100).rate == 80
    assert find(run, Plan(rate=1), parse_all("lost>1000"), first=10).best is None


def test_workers_add_up(questions: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    logs = []
    with Scripted(good) as server:
        for index in range(3):
            monkeypatch.setenv("JOB_COMPLETION_INDEX", str(index))
            given = ["worker", f"127.0.0.1:{server.port}", "--queries", questions, "--rate", "300", "--seconds", "0.2", "--workers", "3"]
            assert cli.main([*given, "--start", str(time.time() + 1.5)]) == 0
            logs.append(tmp_path / f"{index}.log")
            logs[-1].write_text("a line of something else\n" + capsys.readouterr().out)
        assert server.queries == 60
    parts = [result for log in logs for result in read(str(log))]
    assert cli.main(["merge", "--workers", "3", "--json", str(tmp_path / "whole.json"), *map(str, logs)]) == 0
    assert "answered  60 of 60" in capsys.readouterr().out
    (whole,) = read(str(tmp_path / "whole.json"))
    assert whole.latency.count == 60
    assert whole.plan.rate == pytest.approx(300)
    assert whole.latency.maximum == max(part.latency.maximum for part in parts)
    buckets: Counter[tuple[float, float]] = Counter()
    for part in parts:
        buckets.update({(low, high): count for low, high, count in part.latency.buckets()})
    assert {(low, high): count for low, high, count in whole.latency.buckets()} == buckets
    assert cli.main(["merge", "--workers", "4", *map(str, logs)]) == 2


@pytest.mark.parametrize("start", [str(time.time() - 10), "2020-01-01T00:00:00Z"], ids=["seconds", "date"])
def test_a_worker_that_comes_too_late_says_so(questions: str, start: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["worker", f"127.0.0.1:{free_port()}", "--queries", questions, "--rate", "3", "--workers", "2", "--index", "0", "--start", start]) == 2
    assert "give a later --start" in capsys.readouterr().err


def test_shares_of_a_plan_are_the_whole() -> None:
    plans = [share_of(Plan(window=10, steps=[30, 60]), index, 3) for index in range(3)]
    assert [plan.window for plan in plans] == [4, 3, 3]
    assert [plan.steps for plan in plans] == [[10, 20]] * 3
    assert len({plan.seed for plan in plans}) == 3
    for bad, index in ((Plan(window=2), 2), (Plan(window=9), 3)):
        with pytest.raises(ValueError):
            share_of(bad, index, 3)


@pytest.mark.parametrize(
    "text", ["p99", "p99>2", "p101>2ms", "lost>2ms", "nothing>1", "rate>5%", "p99=2ms", "lost>-1", "", "rss>3%", "rss>3", "cpu>3", "ratio>1ms", "ready>1MB"]
)
def test_conditions_that_say_nothing(text: str) -> None:
    with pytest.raises(ThresholdError):
        parse(text, FIGURES)


def test_a_load_alone_has_no_figures_of_the_server() -> None:
    with pytest.raises(ThresholdError, match="nothing called cpu is measured"):
        parse("cpu>3us")


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("lost>0", True),
        ("lost>=10", True),
        ("lost<10%", False),
        ("lost<=10%", True),
        ("SERVFAIL>3", True),
        ("SERVFAIL>4", False),
        ("wrong>0", False),
        ("p99>0.001us", True),
        ("p99<2s", False),
        ("mean>9s", True),
        ("rate<90.5", True),
    ],
)
def test_conditions(text: str, holds: bool) -> None:
    result = Result("x", Target("127.0.0.1"), Plan(), seconds=1, sent=100, answered=90, lost=10, rcodes={"NOERROR": 86, "SERVFAIL": 4})
    assert parse(text).holds(result) is holds


@pytest.mark.parametrize(
    ("text", "holds", "measured"),
    [
        ("cpu>4.9us", True, "0.005 ms"),
        ("cpu>5.1us", False, "0.005 ms"),
        ("ratio>1.2", True, "1.25"),
        ("ratio>=1.3", False, "1.25"),
        ("rss>29MB", True, "30 MB"),
        ("peak>40MB", False, "40 MB"),
        ("ready<300ms", True, "250 ms"),
        ("propagation>1.5s", True, "2000 ms"),
        ("overrun>0", False, "0"),
        ("lost>=10%", True, "10 %"),
    ],
)
def test_conditions_on_a_server(text: str, holds: bool, measured: str) -> None:
    result = Result("x", Target("127.0.0.1"), Plan(), seconds=1, sent=100, answered=90, lost=10)
    record = {"baseline": "floor", "ratio_to_floor": 1.25, "cpu_us_per_answer": 5.0, "rss_mb": 30.0, "rss_peak_mb": 40.0}
    condition = parse(text, FIGURES)
    assert condition.holds(result, record | {"ready_s": 0.25, "propagation_s": [0.1, 2.0], "overrun": 0}) is holds
    assert condition.measured(result, record | {"ready_s": 0.25, "propagation_s": [0.1, 2.0], "overrun": 0}) == measured


def test_what_was_not_measured_is_beyond_every_bound() -> None:
    result, record = Result("x", Target("127.0.0.1"), Plan()), {"baseline": "floor", "propagation_s": []}
    for text in ("ratio>9", "propagation>9s", "p99>9s"):
        assert parse(text, FIGURES).holds(result, record)
        assert parse(text, FIGURES).measured(result, record) == "not measured"
    for text in ("ratio<9", "propagation<9s", "p99<9s"):
        assert not parse(text, FIGURES).holds(result, record)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("10.0.0.10", Target("10.0.0.10", 53)),
        ("udp://dns.test:5353", Target("dns.test", 5353)),
        ("tcp://[::1]:54", Target("::1", 54, "tcp")),
        ("::1", Target("::1", 53)),
        ("dot://dns.test", Target("dns.test", 853, "dot")),
        ("doh://dns.test", Target("dns.test", 443, "doh", path="/dns-query")),
        ("doh://[::1]:8443/a?b=c", Target("::1", 8443, "doh", path="/a?b=c")),
        ("doq://dns.test", Target("dns.test", 853, "doq")),
        ("doh+http://10.0.0.1", Target("10.0.0.1", 80, "doh+http")),
    ],
)
def test_targets(text: str, target: Target) -> None:
    assert parse_target(text) == target
    assert parse_target(str(target)) == target


@pytest.mark.parametrize("text", ["http://x", "tcp://x/path", "doh://x/a b", "doh:///path", "x:0", "x:99999", "[::1", ""])
def test_bad_targets(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse_target(text)


def test_ramps() -> None:
    assert parse_steps("100..500/5") == [100, 200, 300, 400, 500]
    assert parse_steps("7,9") == [7, 9]


@pytest.mark.parametrize("text", ["", "no results here\n", json.dumps({"version": 9, "runs": []}), json.dumps({"version": 1, "runs": [{"result": {}}]})])
def test_files_without_results(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    assert cli.main(["merge", str(path)]) == 2
    assert "fastdns-bench merge: " in capsys.readouterr().err
