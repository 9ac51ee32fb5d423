"""The runner itself: what it compares, what makes it fail, and some cases against the server under test."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import dns.message
import pytest
import yaml

from tests.conformance.__main__ import main
from tests.conformance.answers import canonical, compare
from tests.conformance.cases import CASES, Case, directives, expand_braces, find_cases
from tests.conformance.kube_objects import expand, field_match, selector_match
from tests.conformance.placeholders import Placeholders
from tests.conformance.queries import Query
from tests.conformance.report import Report, accept
from tests.conformance.run import Result
from tests.conformance.steps import STEPS
from tests.conformance.upstream import Upstream
from tests.server import command, free_port

A, B = "a. 60 IN A 192.0.2.1", "b. 60 IN A 192.0.2.2"


# ---- cases ----


def test_every_case_has_its_answers() -> None:
    cases = find_cases([CASES])
    assert len(cases) > 200
    for case in cases:
        assert case.document.get("about") or "refuse" in case.document, case.name
        assert case.checks, case.name
        recorded = case.expected()
        assert set(recorded) <= set(range(1, len(case.steps) + 1)), case.name
        for step in case.steps:
            assert any(kind in STEPS for kind in step), (case.name, step)


def test_every_listed_difference_is_a_check_of_the_corpus() -> None:
    steps = {f"{case.name}#{number}" for case in find_cases([CASES]) for number in range(len(case.steps) + 1)}
    listed = yaml.safe_load((Path(__file__).parents[2] / "docs" / "differences.yaml").read_text())
    assert set(listed) <= steps


def test_steps_are_expanded(tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text("corefile: x\ndefaults: {ttl: ignore}\nmask: {a: b}\nsteps: ['{x,y}.test. {A,MX}', {sleep: 1, mask: {c: d}}]\n")
    case = Case(path)
    assert [step.get("q") for step in case.steps] == ["x.test. A", "x.test. MX", "y.test. A", "y.test. MX", None]
    assert case.steps[-1] == {"sleep": 1, "ttl": "ignore", "mask": {"a": "b", "c": "d"}}
    assert case.checks == 4


@pytest.mark.parametrize(
    ("text", "expanded"), [("a{b,c}", ["ab", "ac"]), ("{port}", ["{port}"]), ("{a,b}{c,d}", ["ac", "ad", "bc", "bd"]), ("{,x}", ["", "x"])]
)
def test_braces(text: str, expanded: list[str]) -> None:
    assert expand_braces(text) == expanded


def test_directives_of_a_corefile() -> None:
    corefile = "(s) {\n errors\n}\nexample.org { # cache\n  forward . 192.0.2.1 {\n    policy random\n  }\n  import s\n  log\n}\n"
    assert directives(corefile) == {"errors", "forward", "log"}


# ---- texts ----


def test_placeholders() -> None:
    places = Placeholders({1: {}, 2: {"host": "::1", "port": "{port3}"}})
    assert places.fill("{port} \\{port} {unknown}") == f"{places.port('port')} {{port}} {{unknown}}"
    assert places.fill("{port}") == places.fill("{port}") != places.fill("{port2}")
    assert places.fill("{upstream}") == places.fill("{upstream1}") == f"127.0.0.1:{places.port('upstream_port1')}"
    assert places.fill("{upstream2}") == f"[::1]:{places.port('port3')}"
    assert places.fill_all({"a": ["{port}", 1]}) == {"a": [str(places.port("port")), 1]}
    assert places.restore(f"x:{places.port('port2')} {places.port('port2')}") == f"x:{{port2}} {places.port('port2')}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("www.example.org. MX", "www.example.org. IN MX;rd;"),
        ("a. CH TXT +nord +ad", "a. CH TXT;ad;"),
        ("a. A +do", "a. IN A;rd;v0 udp=1232 do"),
        ("a. A +bufsize=512 +opt=65001:0102", "a. IN A;rd;v0 udp=512 65001=0102"),
        ("a. A +nsid=", "a. IN A;rd;v0 udp=1232 3="),
        ("a. A +also=b.", "a. IN A b. IN A;rd;"),
        ("a. A +noquestion", ";rd;"),
    ],
)
def test_queries(text: str, shown: str) -> None:
    answer = canonical(Query(text, str, 53).wire())
    assert f"{' '.join(answer.get('question', []))};{answer['flags']};{answer.get('edns', '')}" == shown


@pytest.mark.parametrize(
    ("wanted", "got", "options", "same"),
    [
        ({"answer": [A, B]}, {"answer": [B, A]}, {}, True),
        ({"answer": [A, B]}, {"answer": [B, A]}, {"ordered": True}, False),
        ({"answer": [A]}, {"answer": [A, B]}, {}, False),
        ({"answer": [A]}, {}, {}, False),
        ({"rcode": "NOERROR"}, {"rcode": "SERVFAIL"}, {}, False),
        ({"rcode": "NOERROR", "flags": "rd"}, {"rcode": "NOERROR", "flags": "aa"}, {"only": ["rcode"]}, True),
        ({"flags": "rd"}, {"flags": "aa"}, {"ignore": ["flags"]}, True),
        ({"do": "x"}, {"do": "y"}, {}, True),
        ({"answer": [A]}, {"answer": [A.replace("60", "59")]}, {}, False),
        ({"answer": [A]}, {"answer": [A.replace("60", "9")]}, {"ttl": "ignore"}, True),
        ({"answer": [A]}, {"answer": [A.replace("60", "58")]}, {"ttl": "max"}, True),
        ({"answer": [A]}, {"answer": [A.replace("60", "57")]}, {"ttl": "max"}, False),
        ({"answer": [A]}, {"answer": [A.replace("60", "61")]}, {"ttl": "max"}, False),
        ({"answer": [A]}, {"answer": [A.replace("60", "57")]}, {"ttl": "max", "slack": 3}, True),
        ({"answer": [A]}, {"answer": [A.replace("60", "5")]}, {"ttl": {"min": 5, "max": 9}}, True),
        ({"answer": [A]}, {"answer": [A.replace("60", "10")]}, {"ttl": {"min": 5, "max": 9}}, False),
        ({"answer": [A]}, {"answer": [B]}, {"ttl": "ignore"}, False),
        ({"answer": [A]}, {"answer": [B]}, {"count": True}, True),
        ({"answer": [A]}, {"answer": [A, B]}, {"count": True}, False),
        ({"size": 492}, {"size": 492}, {}, True),
        ({"size": 492}, {"size": 44}, {}, True),
        ({"size": 492}, {"size": 506}, {}, False),
        ({}, {"size": 506}, {}, True),
    ],
)
def test_comparing(wanted: dict[str, Any], got: dict[str, Any], options: dict[str, Any], same: bool) -> None:
    assert (compare(wanted, got, options) == []) is same


def test_a_reply_that_is_none() -> None:
    assert canonical(None) == {"no_reply": True}
    assert "unparseable" in canonical(b"\0\0\x80\0")
    query = Query("a. A", str, 53)
    reply = dns.message.make_response(query.message)
    assert "broken" not in canonical(reply.to_wire(), query)
    assert canonical(query.wire(), query)["broken"] == "no QR bit"
    reply.id ^= 1
    assert canonical(reply.to_wire(), query)["broken"] == "wrong id"


# ---- scripted servers ----


def test_an_upstream_follows_its_rules(tmp_path: Path) -> None:
    rules = [{"q": "drop.test. *", "drop": True}, {"q": "*.rule.test. A", "times": 1, "rcode": "REFUSED"}]
    records = ["alias.test. 60 CNAME www.test.", "www.test. 60 A 192.0.2.1"]
    upstream = Upstream(free_port(), {"rules": rules, "records": records, "soa": "test. 60 SOA ns. a. 1 2 3 4 5"}, tmp_path)
    try:

        def ask(name: str, rdtype: str = "A") -> dict[str, Any] | None:
            replies, _ = upstream.replies(dns.message.make_query(name, rdtype).to_wire(), "udp", ("127.0.0.1", 1))
            return canonical(replies[0]) if replies else None

        assert ask("drop.test.") is None
        assert [(ask("x.rule.test.") or {})["rcode"] for _ in range(2)] == ["REFUSED", "NXDOMAIN"]
        assert (ask("alias.test.") or {})["answer"] == ["alias.test. 60 IN CNAME www.test.", "www.test. 60 IN A 192.0.2.1"]
        nodata = ask("www.test.", "MX") or {}
        assert (nodata["rcode"], "answer" in nodata, len(nodata["authority"])) == ("NOERROR", False, 1)
        assert upstream.queries[0] == "drop.test. IN A udp rd"
        assert ask(".", "NS") is not None
        assert (len(upstream.queries), upstream.health_checks) == (5, 1)
    finally:
        upstream.stop()


def test_shorthands_of_objects() -> None:
    service = expand("svc shop/web 10.0.0.1,fd00::1 ports=http:TCP:80:h2c lb=192.0.2.1 labels=a=b")
    assert service["spec"]["type"] == "LoadBalancer"
    assert service["spec"]["ipFamilies"] == ["IPv4", "IPv6"]
    assert service["spec"]["ports"] == [{"name": "http", "protocol": "TCP", "port": 80, "appProtocol": "h2c", "targetPort": 80}]
    piece = expand("eps shop/web slice=web-2 10.1.0.1;host=h;pod=p 10.1.0.2;notready")
    assert (piece["metadata"]["name"], piece["metadata"]["labels"]) == ("web-2", {"kubernetes.io/service-name": "web"})
    assert [endpoint["conditions"]["ready"] for endpoint in piece["endpoints"]] == [True, False]
    for wrong in ("unknown a/b", "eps a/b 10.0.0.1;wrong"):
        with pytest.raises(ValueError, match="unknown"):
            expand(wrong)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [("", True), ("a=b", True), ("a==c", False), ("a!=c,e", True), ("a in (b, c)", True), ("a notin (b,c)", False), ("x notin (b)", True), ("!a", False)],
)
def test_selectors(selector: str, matches: bool) -> None:
    assert selector_match(selector, {"a": "b", "e": ""}) is matches
    assert field_match("metadata.name=n,spec.none!=x", {"metadata": {"name": "n"}})
    assert not field_match("metadata.name!=n", {"metadata": {"name": "n"}})


# ---- what makes the command fail ----


def report_of(differences: dict[str, str], *statuses: str) -> Report:
    """Of one case whose steps had these statuses, before differences are accepted."""
    case = Case(CASES / "whoami" / "whoami.yaml")
    report = Report(differences)
    results = [Result(status, number, "text") for number, status in enumerate(statuses, 1)]
    report.add(case, 0.0, accept(case, results, differences))
    return report


@pytest.mark.parametrize(
    ("differences", "statuses", "failed", "stale"),
    [
        ({}, ("pass", "pass"), 0, []),
        ({}, ("pass", "fail"), 1, []),
        ({"whoami/whoami#2": "why"}, ("pass", "fail"), 0, []),
        ({"whoami/whoami#2": "why"}, ("fail", "fail"), 1, []),
        ({"whoami/whoami#2": "why"}, ("pass", "pass"), 0, ["whoami/whoami#2"]),
        ({"whoami/whoami": "why"}, ("fail", "fail"), 0, []),
        ({"whoami/whoami": "why"}, ("pass", "pass"), 0, ["whoami/whoami"]),
        ({"whoami/whoami#2": "why"}, ("skip",), 0, []),
        ({"whoami/whoami#99": "why"}, ("pass",), 0, ["whoami/whoami#99"]),
    ],
)
def test_differences(differences: dict[str, str], statuses: tuple[str, ...], failed: int, stale: list[str]) -> None:
    report = report_of(differences, *statuses)
    assert report.totals()["fail"] == failed
    assert report.stale(complete=False) == stale


def test_a_difference_of_no_case_is_stale_when_all_ran() -> None:
    report = report_of({"gone/gone#1": "why"}, "pass")
    assert report.stale(complete=False) == []
    assert report.stale(complete=True) == ["gone/gone#1"]


def replay(*arguments: str) -> int:
    return main(["--server", f"{shlex.join(command())} -conf {{corefile}}", *arguments])


def test_cases_pass_against_the_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Steps of several kinds: queries, kube, upstreams, http, log, refuse."""
    told = tmp_path / "results.json"
    assert replay("-k", "^(whoami/whoami|acl/.*|health/.*|bufsize/bufsize|kubernetes/changes)$", "--no-skips", "--json", str(told)) == 0
    assert " 0 failed, 0 skipped" in capsys.readouterr().out
    totals = json.loads(told.read_text())["totals"]
    assert totals["pass"] > 50


CASE = """
corefile: |
  .:{port} {
    bind 127.0.0.1
    hosts {
      192.0.2.1 www.test
    }
  }
steps:
- www.test. A
- log: on 127.0.0.1
"""


@pytest.mark.parametrize(
    ("address", "differences", "arguments", "status", "line"),
    [
        ("192.0.2.1", "", (), 0, "2 passed, 0 failed, 0 skipped"),
        ("192.0.2.2", "", (), 1, "FAIL NAME step 1: www.test. A: answer: -[www.test. 3600 IN A 192.0.2.2] +[www.test. 3600 IN A 192.0.2.1]"),
        ("192.0.2.2", "NAME#1: why", (), 0, "1 passed, 0 failed, 0 skipped"),
        ("192.0.2.1", "NAME#1: why", (), 1, "PASSES NOW NAME#1"),
        ("192.0.2.1", "", ("--built", "forward"), 0, "SKIP NAME: needs bind hosts"),
        ("192.0.2.1", "", ("--built", "forward", "--no-skips"), 1, "SKIP NAME: needs bind hosts"),
        ("192.0.2.2", "", ("--retries", "1"), 1, "AGAIN NAME"),
    ],
)
def test_the_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str, differences: str, arguments: tuple[str, ...], status: int, line: str
) -> None:
    (tmp_path / "one.yaml").write_text(CASE)
    name = f"{tmp_path.name}/one"
    answer = {"rcode": "NOERROR", "flags": "aa rd", "question": ["www.test. IN A"], "answer": [f"www.test. 3600 IN A {address}"]}
    (tmp_path / "one.expected.yaml").write_text(yaml.safe_dump({1: {"do": "www.test. A", **answer}}))
    listed = tmp_path / "listed"
    listed.write_text(differences.replace("NAME", name))
    assert replay("--cases", str(tmp_path), "--differences", str(listed), *arguments) == status
    assert line.replace("NAME", name) in capsys.readouterr().out


def test_recording(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(CASE)
    assert replay("--cases", str(tmp_path), "--record") == 0
    assert yaml.safe_load((tmp_path / "one.expected.yaml").read_text())[1]["answer"] == ["www.test. 3600 IN A 192.0.2.1"]
    assert replay("--cases", str(tmp_path)) == 0


def test_a_server_that_does_not_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.yaml").write_text(CASE.replace("hosts", "wrong"))
    assert replay("--cases", str(tmp_path)) == 1
    out = capsys.readouterr().out
    assert "server exited with 1" in out
    assert "0 passed, 2 failed, 0 skipped" in out
