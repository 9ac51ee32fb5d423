"""Reports of hand-made documents: the table, the page, the command."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fastdns.bench import cli
from fastdns.bench.report import plots
from fastdns.bench.report.page import page
from fastdns.bench.report.table import table

VOID = {"meta", "br"}

#: The heading of a figure that is drawn.
DIAGRAM = re.compile(r"<figure><h3>([^<]*)</h3><svg")

#: Of the page of `document`, with a load at a fixed rate and one that saturates.
DIAGRAMS = [
    "Latency over load, median",
    "Latency over load, 99th percentile",
    "Latency by percentile at 5,000 queries per second",
    "Latency by percentile, saturated",
    "CPU for an answer at 5,000 queries per second",
    "CPU for an answer, saturated",
    "Memory over time, all loads in turn",
]


def run(subject: str, rate: float, cpu_us: float, floor: float, **more: Any) -> dict[str, Any]:
    answers = rate or 1e6 / cpu_us
    return {
        "subject": subject,
        "scenario": "cluster",
        "work": "cluster name",
        "workload": "ClusterIP names",
        "transport": "udp",
        "rate": rate,
        "workers": 1,
        "answers_per_s": answers,
        "cpu_us_per_answer": cpu_us,
        "baseline": "floor",
        "ratio_to_floor": cpu_us / floor,
        "noise": 0.01,
        "rss_mb": 30.0,
        "rss_peak_mb": 40.0,
        "ready_s": 0.25,
        "latency_s": {"p50": cpu_us * 1e-6, "p90": cpu_us * 2e-6, "p99": cpu_us * 4e-6, "p999": cpu_us * 9e-6, "max": 0.01},
        "memory": [[0.2, 28.0], [0.4, 30.0]],
        "rounds": [{"answers_per_s": answers, "cpu_us_per_answer": cpu_us * factor} for factor in (0.98, 1, 1.02)],
        "curve": [[0.0, cpu_us * 1e-6], [50.0, cpu_us * 2e-6], [99.9, cpu_us * 9e-6], [100.0, 0.01]],
        "overrun": 0,
        "result": {"lost": 3, "unsent": 4, "dropped": 0, "wrong": {"rcode": 2}},
        **more,
    }


def document(made: str = "2026-11-01T12:00:00+00:00", **more: Any) -> dict[str, Any]:
    runs = [run(subject, rate, cost, 4.0) for rate in (5000.0, 0.0) for subject, cost in (("floor", 4.0), ("fastdns", 5.0), ("knotd <b>", 6.0))]
    machine = {"cpu": "CPU & Co", "cpus": 2, "memory_mb": 2048, "kernel": "6.1", "python": "3.11", "server_cpus": [0], "load_cpus": [1], "noise": 0.02}
    skipped = [{"subject": "nsd", "variant": "", "why": "nsd is not installed"}]
    return {"version": 1, "made": made, "command": "fastdns-bench <x>", "machine": machine, "notes": ["a cluster"], "skipped": skipped, "runs": runs} | more


class Checker(HTMLParser):
    """Every element is closed in its turn, and nothing is loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert not {"src", "href"} & {name for name, _ in attributes}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def checked(text: str) -> str:
    """The page's text."""
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert not checker.open
    for picture in re.findall(r"<svg.*?</svg>", text, re.S):
        ElementTree.fromstring(picture)
        assert "nan" not in picture
    return "\n".join(checker.texts)


def test_table_shows_cost_beside_the_floor_and_what_was_left_out() -> None:
    lines = table(document()).splitlines()
    row = next(line.split() for line in lines if line.startswith("fastdns"))
    assert row == ["fastdns", "5,000", "5,000", "5.00", "4.0%", "1.25", "5", "20", "45", "7", "2", "30", "40", "0.25"]
    assert [line for line in lines if line.startswith("fastdns") and " max " in line]
    assert "skipped: nsd: nsd is not installed" in lines
    assert lines[-1].endswith("its own rounds differ by up to 1.0%")


def test_table_tells_whose_queues_were_full() -> None:
    runs = [run("fastdns", 0, 5, 4, overrun=1234), run("nsd", 5000, 5, 4, result={"lost": 3, "unsent": 4, "dropped": 2, "wrong": {}})]
    lines = table(document(runs=runs)).splitlines()
    assert "fastdns at max: 1,234 queries found its queue full" in lines
    assert "nsd at 5,000: 2 replies found the generator's queues full" in lines


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ([0.001, 0.002, 0.5], "fastdns: 3 changes, answered after 2.0 ms (median), 500.0 ms at most"),
        ([], "fastdns: 3 changes, none seen before the load ended"),
    ],
)
def test_table_tells_how_soon_changes_were_answered(times: list[float], said: str) -> None:
    assert said in table(document(runs=[run("fastdns", 5000, 5, 4, changes=3, propagation_s=times)])).splitlines()


@pytest.mark.parametrize(
    ("noise", "own", "bound", "said"),
    [
        (3.67, 0.01, 0.5, "void: noise 367 %, at most 50 % are allowed"),
        (0.02, 0.7, 0.5, "void: noise 70 %, at most 50 % are allowed"),
        (0.5, None, 0.5, ""),
        (3.67, 0.01, None, ""),
    ],
)
def test_void(noise: float, own: float | None, bound: float | None, said: str) -> None:
    made = document(runs=[run("fastdns", 5000, 5, 4, noise=own)], max_noise=bound)
    made["machine"]["noise"] = noise
    assert ([line for line in table(made).splitlines() if line.startswith("void")] or [""]) == [said]
    assert ("void: " in checked(page([made]))) == bool(said)


def test_page_stands_alone_and_says_everything() -> None:
    text = checked(page([document()]))
    for wanted in (
        "fastdns-bench <x>",
        "CPU & Co",
        "knotd <b>",
        "Latency over load, 99th percentile",
        "Latency by percentile, saturated",
        "Latency by percentile at 5,000 queries per second",
        "CPU for an answer, saturated",
        "nsd is not installed",
    ):
        assert wanted in text, wanted


def test_page_has_a_diagram_of_each_kind() -> None:
    assert DIAGRAM.findall(page([document()])) == DIAGRAMS


@pytest.mark.parametrize("more", [{}, {"changes": 2, "propagation_s": [0.001, 0.004]}, {"changes": 1, "propagation_s": []}, {"memory": []}])
def test_page_of_a_single_load(more: dict[str, Any]) -> None:
    text = checked(page([document(runs=[run("fastdns", 5000, 5, 4, **more)])]))
    assert ("Changes answered within so long" in text) == bool(more.get("propagation_s"))
    assert "Latency, 99th percentile" in text


def test_page_without_a_floor() -> None:
    bare = run("fastdns", 0, 5, 4, baseline="")
    del bare["ratio_to_floor"]
    assert "5.00 us" in checked(page([document(runs=[bare])]))
    assert "ratio:" not in table(document(runs=[bare]))


def test_page_over_time_has_every_run() -> None:
    text = checked(page([document(f"2026-11-0{day}T12:00:00+00:00") for day in (1, 2, 3)]))
    assert "3 runs over time" in text
    assert text.index("2026-11-03T") < text.index("2026-11-01T")


def test_command_writes_the_page_of_files_in_any_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / name for name in ("b.json", "a.json")]
    for path, day in zip(paths, ("2026-11-02T12:00:00+00:00", "2026-11-01T12:00:00+00:00"), strict=True):
        path.write_text(json.dumps(document(day)))
    html = tmp_path / "page.html"
    assert cli.main(["report", *map(str, paths), "--html", str(html)]) == 0
    assert capsys.readouterr().out.count("skipped: nsd") == 2
    assert checked(html.read_text()).index("2026-11-02T") < html.read_text().index("2026-11-01T")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("{", "cannot be read"),
        ("[]", "is no report of fastdns-bench"),
        ('{"version": 2}', "has version 2, not 1"),
        ('{"version": 1, "made": "x", "runs": []}', "has no runs"),
        ('{"version": 1, "made": "x", "runs": [{"scenario": "load", "result": {}}]}', "is of a load without a server"),
    ],
)
def test_files_that_are_no_report(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, said: str) -> None:
    path = tmp_path / "run.json"
    if text is not None:
        path.write_text(text)
    assert cli.main(["report", str(path)]) == 2
    assert f"{path} {said}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "high", "marks"),
    [([0.0], 1e-9, 6), ([1.0], 1.0, 6), ([7.3], 8.0, 5), ([26_000.0, 3.0], 30_000.0, 4), ([100.0], 100.0, 6)],
)
def test_linear_axes_begin_at_zero_and_end_at_a_round_value(values: list[float], high: float, marks: int) -> None:
    axis = plots.linear(values)
    assert (axis.low, axis.high, len(axis.marks)) == (0, pytest.approx(high), marks)


@pytest.mark.parametrize(("values", "low", "high"), [([3.0, 40.0], 2, 50), ([0.0], 1, 2), ([10.0, 10.0], 10, 20), ([0.07, 9000.0], 0.05, 10_000)])
def test_logarithmic_axes_have_all_values_between_round_ones(values: list[float], low: float, high: float) -> None:
    axis = plots.logarithmic(values)
    assert (axis.low, axis.high) == (pytest.approx(low), pytest.approx(high))
    assert len(axis.marks) >= 2
    assert axis.share(low) == pytest.approx(0)
    assert axis.share(high) == pytest.approx(1)


@pytest.mark.slow
def test_a_browser_draws_the_page(tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("needs Chromium")
    html, picture = tmp_path / "page.html", tmp_path / "page.png"
    html.write_text(page([document()]))
    quiet = ("gpu", "quic", "background-networking", "component-update", "sync")
    flags = ["--headless", "--no-sandbox", "--no-first-run", *(f"--disable-{what}" for what in quiet), f"--user-data-dir={tmp_path}/profile"]
    subprocess.run([browser, *flags, f"--screenshot={picture}", html.as_uri()], check=True, capture_output=True, timeout=120)
    assert picture.stat().st_size > 10_000
    dumped = subprocess.run([browser, *flags, "--dump-dom", html.as_uri()], check=True, capture_output=True, text=True, timeout=120)
    assert DIAGRAM.findall(dumped.stdout) == DIAGRAMS


def shaped(server: str, transport: str, shape: str, cpu_us: float, **more: Any) -> dict[str, Any]:
    plans = {"one": {"clients": 1, "window": 1}, "new": {"clients": 1, "window": 1, "new_connection": True}, "many": {"clients": 8, "window": 128}}
    plan = {"new_connection": False, **plans[shape]}
    result = {"lost": 0, "unsent": 0, "dropped": 0, "wrong": {}, "plan": plan}
    title = {"dot": "DoT", "doh": "DoH, HTTP/2"}[transport]
    made = run(f"{server} {transport} {shape}", 0, cpu_us, 4.0, result=result, transport=transport, row=title, shape=shape, server=server, baseline="coredns")
    return made | {"reference": server != "fastdns"} | more


def test_transports_are_a_table_in_markdown() -> None:
    runs = [
        shaped("fastdns", "dot", "one", 33.3),
        shaped("coredns", "dot", "one", 68.1),
        shaped("fastdns", "dot", "many", 4.71, latency_s=dict.fromkeys(("p50", "p99", "p999", "max"), 0.0)),
        shaped("fastdns", "doh", "new", 1006.4),
        shaped("coredns", "doh", "new", 924.0),
        shaped("nghttpd", "doh", "new", 700.0),
    ]
    shown = table(document(runs=runs))
    assert shown.splitlines()[0].endswith("over dot, doh")
    assert shown.partition("\nCPU in us for an answer, ")[2] == (
        """fastdns / coredns:

|  | one query at a time | 128 queries under way on 8 connections | a new connection for each query |
| --- | --- | --- | --- |
| DoT | 33 / 68 | 4.7 / - |  |
| DoH, HTTP/2 |  |  | 1006 / 924 |
| nghttpd, DoH, HTTP/2 |  |  | 700 |

99th percentile of latencies in us, fastdns / coredns:

|  | one query at a time |
| --- | --- |
| DoT | 133 / 272 |
"""
    )


def test_who_was_left_out_is_said_once_for_each_reason() -> None:
    left = [{"subject": "nghttpd", "variant": f"dot {shape}", "why": "answers over HTTP/2 only"} for shape in ("one", "new")]
    assert "skipped: nghttpd dot one, dot new: answers over HTTP/2 only" in table(document(skipped=left)).splitlines()
