"""Load clients of other projects: what they are told, what is read from their output, and each with a server."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from fastdns.bench import cli
from fastdns.bench.clients import CLIENTS, Load
from fastdns.bench.load import LoadError
from fastdns.bench.result import Plan, Result, Target
from fastdns.bench.servers import ADAPTERS, subject
from fastdns.bench.workload import Question
from tests.programs import built, need

GHZ = ("ghz", "github.com/bojand/ghz/cmd/ghz", "v0.93.0")
QUESTION = Question("www.example.org.", 1, 0)
QUERY = "00000100000100000000000003777777076578616d706c65036f72670000010001"
TRANSPORT = {"dnsperf": "dot", "h2load": "doh", "quic-go": "doq", "ghz": "grpc"}


def load(client: str, folder: Path, transport: str = "", **plan: Any) -> Load:
    return Load(Target("127.0.0.1", 8853, transport or TRANSPORT[client]), Plan(seconds=1.5, **plan), QUESTION, folder)


# ---- what they are told ----

ONE: dict[str, Any] = {"clients": 1, "window": 1}
NEW: dict[str, Any] = {**ONE, "new_connection": True}


@pytest.mark.parametrize(
    ("client", "transport", "plan", "told"),
    [
        ("dnsperf", "dot", {}, "-m dot -s 127.0.0.1 -p 8853 -d FOLDER/queries -l 1.5 -c 8 -q 128 -T 1 -t 5"),
        ("dnsperf", "dot", ONE, "-c 1 -q 100 -T 1 -t 5 -O suppress=sockready -Q 1000 -v"),
        ("dnsperf", "dot", NEW, "-c 32 -q 32 -T 1 -t 5 -O suppress=sockready -O num-queries-per-conn=1 -v"),
        ("h2load", "doh", {}, "-N 5000ms -D 1500ms -c 8 -m 16 -t 1 https://127.0.0.1:8853/dns-query"),
        ("h2load", "doh1", ONE, "-N 5000ms --h1 -D 1500ms -c 1 -m 1 -t 1"),
        ("h2load", "doh", NEW, "-n 300 -c 300 -r 1 --rate-period 5ms https://"),
        ("ghz", "grpc", {}, "-c 128 --connections 8 -z 1.5s --duration-stop wait -t 5s -O json 127.0.0.1:8853"),
        ("quic-go", "doq", {}, f"-address 127.0.0.1:8853 -path /dns-query -query {QUERY} -connections 8 -in-flight 128 -seconds 1.5 -timeout 5s"),
        ("quic-go", "doh3", NEW, "-connections 1 -in-flight 1 -seconds 1.5 -timeout 5s -new-connection"),
    ],
)
def test_commands(client: str, transport: str, plan: dict[str, Any], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(CLIENTS["quic-go"]), "program", "quicgo")
    command = " ".join(CLIENTS[client].command(load(client, tmp_path, transport, **plan))).replace(str(tmp_path), "FOLDER")
    assert told in command


def test_files_for_clients(tmp_path: Path) -> None:
    for client in ("dnsperf", "h2load", "ghz"):
        CLIENTS[client].command(load(client, tmp_path))
    assert (tmp_path / "queries").read_text() == "www.example.org. A\n"
    assert (tmp_path / "query").read_bytes().hex() == QUERY
    assert (tmp_path / "packet").read_bytes().hex() == "0a21" + QUERY


# ---- what they say ----

DNSPERF = """DNS Performance Testing Tool
Version 2.10.0

[Status] Command line: dnsperf -m dot -s 127.0.0.1 -p 8853 -d queries -c 1 -q 1 -l 1 -v
[Status] Sending queries (to 127.0.0.1:8853)
[Status] Stopping after 1.000000 seconds
> NOERROR www.example.org. A 0.002490
> SERVFAIL www.example.org. A 0.000200
> NOERROR www.example.org. A 0.000200
[Timeout] Query timed out: msg id 3
[Status] Testing complete (time limit)

Statistics:

  Queries sent:         4
  Queries completed:    3 (75.00%)
  Queries lost:         1 (25.00%)

  Response codes:       NOERROR 2 (66.67%), SERVFAIL 1 (33.33%)
  Average packet size:  request 33, response 88
  Run time (s):         1.000529
  Queries per second:   2.998414

  Average Latency (s):  0.000963 (min 0.000200, max 0.002490)
  Latency StdDev (s):   0.001322

Connection Statistics:

  Reconnections:        0

  Average Latency (s):  0.002039 (min 0.002039, max 0.002039)

"""

H2LOAD = """starting benchmark...
spawning thread #0: 8 total client(s). Timing-based test with 0s of warm-up time and 1s of main duration for measurements.
Main benchmark duration is started for thread #0.
TLS Protocol: TLSv1.3
Cipher: TLS_AES_256_GCM_SHA384
Server Temp Key: X25519 253 bits
Application protocol: h2

finished in 1.00s, 3.00 req/s, 1.69MB/s
requests: 6 total, 8 started, 6 done, 2 succeeded, 4 failed, 2 errored, 1 timeout
status codes: 2 2xx, 0 3xx, 0 4xx, 1 5xx
traffic: 1.69MB (1770896) total, 722.01KB (739336) headers (space savings 34.48%), 176B (176) data
                     min         max         mean         sd        +/- sd
time for request:      200us      2.49ms     12.33ms      8.99ms    88.16%
time for connect:     9.82ms     12.83ms     11.33ms      1.04ms    62.50%
time to 1st byte:    40.69ms     41.15ms     40.95ms       156us    75.00%
req/s           :    1215.29     1215.71     1215.46        0.14    75.00%
"""
H2LOAD_LOG = "1795368583837020\t200\t2490\n1795368583837021\t503\t200\n1795368583837022\t200\t200\n1795368583837022\t-1\t10\n"


def call(nanoseconds: int, status: str) -> dict[str, Any]:
    return {"timestamp": "2026-11-22T17:30:35.923994723Z", "latency": nanoseconds, "error": "" if status == "OK" else "rpc error", "status": status}


GHZ_SAYS = json.dumps(
    {
        "date": "2026-11-22T17:30:35Z",
        "endReason": "timeout",
        "count": 4,
        "total": 1000529000,
        "rps": 3.99,
        "errorDistribution": {"rpc error: code = Unavailable desc = transport is closing": 1, "rpc error: code = Internal desc = no": 1},
        "statusCodeDistribution": {"OK": 2, "Internal": 1, "Unavailable": 1},
        "details": [call(2490000, "OK"), call(200000, "Internal"), call(200000, "OK"), call(1, "Unavailable")],
    }
)

QUIC_GO = json.dumps(
    {
        "answers": 3,
        "errors": {"timeout": 1, "Application error 0x2 (remote)": 2},
        "rcodes": {"0": 1, "2": 1},
        "statuses": {"503": 1},
        "wrong": 0,
        "octets": 264,
        "seconds": 1.000529,
        "latencies": [[2490000, 1], [200000, 2]],
    }
)

#: Client -> its output, sent, answered, lost, wrong, rcodes, statuses, octets.
SAID: dict[str, tuple[str, int, int, int, dict[str, int], dict[str, int], dict[str, int], int]] = {
    "dnsperf": (DNSPERF, 4, 3, 1, {"rcode": 1}, {"NOERROR": 2, "SERVFAIL": 1}, {}, 264),
    "h2load": (H2LOAD, 6, 3, 3, {"status": 1}, {}, {"503": 1}, 176),
    "ghz": (GHZ_SAYS, 4, 3, 1, {"status": 1}, {}, {"Internal": 1}, 0),
    "quic-go": (QUIC_GO, 6, 3, 3, {"rcode": 1, "status": 1}, {"NOERROR": 1, "SERVFAIL": 1}, {"503": 1}, 264),
}


def empty(given: Load) -> Result:
    return Result("one name", given.target, given.plan)


@pytest.mark.parametrize("client", SAID)
def test_outputs(client: str, tmp_path: Path) -> None:
    given = load(client, tmp_path)
    given.write("log", H2LOAD_LOG)
    result = empty(given)
    output, *expected = SAID[client]
    CLIENTS[client].read(given, output, result)
    found = [result.sent, result.answered, result.lost, result.wrong, result.rcodes, result.statuses, result.octets]
    assert found == expected
    assert result.latency.count == 3
    assert result.latency.minimum == pytest.approx(200e-6)
    assert result.latency.maximum == pytest.approx(2490e-6)
    assert result.seconds == pytest.approx(1.0, abs=0.001)


def test_errors_of_quic_count_as_resets_and_timeouts_do_not(tmp_path: Path) -> None:
    result = empty(load("quic-go", tmp_path))
    CLIENTS["quic-go"].read(load("quic-go", tmp_path), QUIC_GO, result)
    assert result.resets == 2


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of the search path."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def script(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("echo it broke >&2; exit 3", "dnsperf ended with status 3: it broke"),
        ("echo hello", "dnsperf's output cannot be read (no line 'Queries sent'): hello"),
        ("cat <<'E'\n" + DNSPERF.replace("completed:    3", "completed:    0") + "E", "dnsperf got no answer: "),
    ],
)
def test_clients_that_fail(programs: Path, does: str, said: str) -> None:
    script(programs, "dnsperf", "PATH=/usr/bin:/bin\n" + does)
    with pytest.raises(LoadError) as error:
        CLIENTS["dnsperf"].run(Target("127.0.0.1", 8853, "dot"), Plan(seconds=0.1), QUESTION, "one name")
    assert said in str(error.value)


# ---- which there are ----


@pytest.mark.parametrize(
    ("client", "said"),
    [
        ("dnsperf", "dnsperf is not installed (Debian's package dnsperf)"),
        ("h2load", "h2load is not installed (Debian's package nghttp2-client)"),
        ("ghz", "ghz is not installed (go install github.com/bojand/ghz/cmd/ghz@latest)"),
    ],
)
def test_clients_that_are_not_installed_say_how_to_get_them(client: str, said: str, programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "transports", "--client", client]) == 2
    assert said in capsys.readouterr().err


def test_no_client_at_all(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "transports", "--transport", "dot", "--transport", "grpc"]) == 2
    said = capsys.readouterr().err
    assert "not measured over dot: dnsperf is not installed" in said
    assert "not measured over grpc: ghz is not installed" in said


def test_ghz_makes_no_new_connections(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script(programs, "ghz", "")
    assert cli.main(["run", "transports", "--client", "ghz", "--shape", "new"]) == 2
    assert "not measured with new connections over grpc: ghz cannot make them" in capsys.readouterr().err


def test_nghttpd_that_is_not_installed_says_how_to_get_it(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ADAPTERS["nghttpd"], "PLACES", ())
    assert subject("nghttpd").missing() == "nghttpd is not installed (Debian's package nghttp2-server)"


# ---- with a server ----

SHORT = ["--max-noise", "1e9", "--seconds", "1", "--warm", "0", "--window", "16", "--clients", "4"]


@pytest.fixture
def install(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``install(client)`` has it on the search path."""

    def have(client: str) -> None:
        if client == "ghz":
            program = built(request.getfixturevalue("go"), *GHZ)
            monkeypatch.setenv("PATH", f"{Path(program).parent}:{os.environ['PATH']}")
        elif client == "quic-go":
            pytest.importorskip("aioquic")
            request.getfixturevalue("go")
        else:
            need(client)

    return have


@pytest.mark.parametrize(
    ("client", "runs"),
    [
        ("dnsperf", ["dot one", "dot new", "dot many", "grpc-client one", "grpc-client many"]),
        ("h2load", ["doh one", "doh new", "doh many", "doh1 one", "doh1 new", "doh1 many"]),
        ("quic-go", ["doq one", "doq new", "doq many", "doh3 one", "doh3 new", "doh3 many"]),
        ("ghz", ["grpc one", "grpc many"]),
    ],
)
def test_every_transport(client: str, runs: list[str], install: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(client)
    out, html = tmp_path / "run.json", tmp_path / "run.html"
    assert cli.main(["run", "transports", "--client", client, *SHORT, "--json", str(out), "--html", str(html)]) == 0, capsys.readouterr()
    document = json.loads(out.read_text())
    assert [run["subject"] for run in document["runs"]] == [f"fastdns {name}" for name in runs]
    for run in document["runs"]:
        result = Result.from_json(run["result"])
        assert run["client"] == client
        assert result.answered > 0
        assert result.wrongs == 0
        assert run["cpu_us_per_answer"] > 0
        # dnsperf counts no latencies with many queries under way.
        assert bool(result.latency.count) == (client != "dnsperf" or run["shape"] != "many")
    assert cli.main(["report", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "| 16 queries under way on 4 connections |" in printed
    assert "nan" not in html.read_text()


def test_compare_beside_the_floor_of_http2(install: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Something else stands for CoreDNS: conditions judge what is compared with it, and ratios are those of the same row."""
    install("h2load")
    need("nghttpd")
    other = tmp_path / "other"
    script(tmp_path, "other", f'exec {fastdns()} "$@"')
    out = tmp_path / "run.json"
    arguments = ["compare", "transports", "--subject", "fastdns", "--subject", f"coredns={other}", "--subject", "nghttpd", *SHORT, "--rounds", "1"]
    judged = ["--transport", "doh", "--transport", "doh1", "--shape", "one", "--shape", "many", "--fail-if", "ratio>0.0001", "--json", str(out)]
    assert cli.main([*arguments, *judged]) == 1
    said = capsys.readouterr()
    failed = re.findall(r"^FAILED: (\S+ \S+ \S+) at max: ratio", said.err, re.M)
    assert failed == ["fastdns doh one", "fastdns doh many", "fastdns doh1 one", "fastdns doh1 many"]
    cost = {run["subject"]: run["cpu_us_per_answer"] for run in json.loads(out.read_text())["runs"]}
    for run in json.loads(out.read_text())["runs"]:
        row = run["subject"].partition(" ")[2]
        assert run["ratio_to_coredns"] == pytest.approx(run["cpu_us_per_answer"] / cost[f"coredns {row}"], rel=0.01)
    assert [line.partition(" | ")[0] for line in said.out.splitlines() if line.startswith("| ")][:5] == [
        "| ",
        "| ---",
        "| DoH, HTTP/2",
        "| DoH, HTTP/1.1",
        "| nghttpd, DoH, HTTP/2",
    ]
    assert "skipped: nghttpd doh1 one, doh1 many: does not answer over doh1" in said.out


def test_wrong_answers_fail_the_run(install: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A server that refuses the question over TLS, and answers it over UDP, where it is asked whether it is ready."""
    install("dnsperf")
    # Another server block for what was one: the first with the plugin, the second without.
    split = r"sed -i -E -e '/^ *whoami/d' -e '1s/ (tls\S+)/ {\n    bind 127.0.0.1\n    whoami\n}\n\1/' Corefile"
    script(tmp_path, "refusing", f'[ "$1" != -conf ] || {split}\nexec {fastdns()} "$@"')
    arguments = ["run", "transports", "--client", "dnsperf", "--shape", "many", *SHORT]
    assert cli.main([*arguments, "--subject", f"fastdns={tmp_path / 'refusing'}"]) == 1, capsys.readouterr()
    assert re.search(r"FAILED: fastdns dot many at max: wrong replies: rcode [\d,]+", capsys.readouterr().err)


def fastdns() -> Path:
    return Path(sys.executable).with_name("fastdns")
