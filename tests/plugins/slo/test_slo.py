"""slo: what counts as answered in time, whose questions count, and what reloads leave."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from typing import Any

import dns.exception
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fastdns.corefile import CorefileError
from fastdns.plugins.slo import parse
from fastdns.server import control
from fastdns.setup import Controller
from tests.server import Server

Serve = Callable[..., Server]

COREFILE = """
.:{port} {
    bind 127.0.0.1
    prometheus 127.0.0.1:{port2}
    slo SLO
    REST
}
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slo", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after 'slo'"),
        ("slo 99%", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after '99%'"),
        ("slo 99% 5ms 1s", "Testfile:1 - Error during parsing: Wrong argument count or unexpected line ending after '1s'"),
        ("slo 99 5ms", 'the share of an objective ends in %: "99"'),
        ("slo x% 5ms", 'invalid objective: strconv.ParseFloat: parsing "x": invalid syntax'),
        ("slo 99% 5", 'invalid objective: time: missing unit in duration "5"'),
        ("slo nan% 5ms", "the share of an objective must be in range [50%, 100%): nan%"),
        ("slo 100% 5ms", "the share of an objective must be in range [50%, 100%): 100%"),
        ("slo 49.9% 5ms", "the share of an objective must be in range [50%, 100%): 49.9%"),
        ("slo 99% 0s", "the time of an objective must be positive: 0s"),
        ("slo 99% 5ms {\n failures\n}", "Testfile:2 - Error during parsing: slo takes no options"),
        ("slo 99% 5ms\nslo 90% 1ms", "this plugin can only be used once per Server Block"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(text, ["."]))
    assert str(caught.value) == message


def test_parsed() -> None:
    objective = parse(Controller.of("slo 99.95% 1m30s", ["."]))
    assert (objective.percent, objective.time, objective.nanoseconds) == ("99.95", "1m30s", 90_000_000_000)
    assert objective.share == pytest.approx(0.9995)


def corefile(slo: str, rest: str) -> str:
    return COREFILE.replace("SLO", slo).replace("REST", rest)


def counts(server: Server) -> dict[str, float]:
    """Queries by result, and the objective."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(server.get(server.ports["port2"], "/metrics")):
        for sample in family.samples:
            if sample.name.startswith("fastdns_slo_"):
                assert (sample.labels["server"], sample.labels["zone"], sample.labels["view"]) == (f"dns://127.0.0.1:{server.port}", ".", "")
                found[sample.labels.get("result", sample.name.removeprefix("fastdns_slo_objective_"))] = sample.value
    return found


def test_results(serve: Serve) -> None:
    server = serve(
        corefile(
            "99.5% 250ms",
            """template IN A late.example {
        answer "{{ .Name }} 5 IN CNAME late"
    }
    template IN A bad.example {
        rcode SERVFAIL
    }
    template IN A none.example {
        rcode NXDOMAIN
    }
    acl {
        drop type TXT
    }
    erratic {
        drop 0
        delay 1 400ms
    }""",
        )
    )
    expected = {"within": 0.0, "late": 0.0, "failed": 0.0, "seconds": 0.25, "ratio": 0.995}
    assert counts(server) == expected, "there from the start, so that a rate has a beginning"
    for name, result, times in (("none.example", "within", 3), ("bad.example", "failed", 2), ("slow.example.org", "late", 1)):
        for _ in range(times):
            server.query(name)
        expected[result] += times
        assert counts(server) == expected
    server.query("none.example", tcp=True)
    with contextlib.suppress(dns.exception.Timeout):
        server.query("none.example", "TXT", timeout=0.5)
    expected["within"] += 1
    assert counts(server) == expected, "what a policy drops has no result"


def test_section(serve: Serve) -> None:
    """What `fastdns top` and the console show of it, until a reload leaves it out."""
    rest = "template IN A bad.example {\n rcode SERVFAIL\n}\n whoami"
    server = serve(corefile("99.5% 250ms", rest))
    for name in ("a.example", "b.example", "bad.example"):
        server.query(name)

    def section() -> dict[str, Any]:
        return dict(control.ask({"sections": ["slo"]}, server.pid)["slo"])

    key = {"server": f"dns://127.0.0.1:{server.port}", "zone": ".", "view": ""}
    assert section() == {"objectives": [{**key, "share": 0.995, "seconds": 0.25, "within": 2, "late": 0, "failed": 1}]}
    server.reload(corefile("90% 1s", rest))
    assert section() == {"objectives": [{**key, "share": 0.9, "seconds": 1, "within": 2, "late": 0, "failed": 1}]}
    server.reload(corefile("90% 1s", rest).replace("slo 90% 1s", ""))
    assert section() == {}


def test_questions_of_handlers_do_not_count(serve: Serve) -> None:
    server = serve(
        corefile(
            "90% 10s",
            """dns64 {
        allow_ipv4
        translate_all
    }
    template IN A {
        answer "{{ .Name }} 5 IN A 192.0.2.1"
    }
    template IN AAAA {
        rcode NOERROR
    }""",
        )
    )
    assert server.answers("a.example", "AAAA") == ["64:ff9b::c000:201"]
    assert counts(server)["within"] == 1


def test_reloads(serve: Serve) -> None:
    server = serve(corefile("90% 10s", "whoami"))
    server.query("a.example")
    server.reload(corefile("99% 1ms", "whoami"))
    assert counts(server) == {"within": 1.0, "late": 0.0, "failed": 0.0, "seconds": 0.001, "ratio": 0.99}
    server.reload(corefile("99% 2ms", "whoami").replace("    slo 99% 2ms\n", ""))
    assert counts(server) == {"within": 1.0, "late": 0.0, "failed": 0.0}, "counters go on, and there is no objective"


def test_a_configuration_that_is_refused_leaves_the_objective(serve: Serve) -> None:
    """Its chains are made, and then a query of `test` is not answered as it should be."""
    text = corefile("90% 10s", "whoami")
    server = serve(text)
    before = len(server.log())
    server.write(text.replace("90% 10s", "99% 1ms").replace("whoami", 'test "a.example A" expects 192.0.2.77\n    whoami'))
    server.signal(signal.SIGUSR1)
    server.wait_log("Restart failed: .*192.0.2.77", start=before)
    assert counts(server) == {"within": 0.0, "late": 0.0, "failed": 0.0, "seconds": 10.0, "ratio": 0.9}
