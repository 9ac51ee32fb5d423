"""Scenarios from the command line, small: servers are started, asked, disturbed and reported."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from fastdns.bench import cli
from fastdns.bench.report.page import page
from fastdns.bench.scenarios import SCENARIOS

SHORT = ["--seconds", "0.1", "--warm", "0", "--timeout", "2", "--max-noise", "1e9"]
CLUSTER = ["--services", "50", "--endpoints", "100", "--pods", "100"]

#: Scenario -> its flags, and the servers that are measured.
RUNS: dict[str, tuple[list[str], list[str]]] = {
    "fixed": (["--wildcard"], ["floor", "fastdns"]),
    "cluster": ([*CLUSTER, "--pod-mode", "verified"], ["floor", "fastdns"]),
    "cache": (["--names", "50"], ["floor", "fastdns"]),
    "forward": (["--names", "50"], ["relay", "fastdns"]),
    "file": (["--names", "50"], ["floor", "fastdns hit", "fastdns absent"]),
    "tcp": (CLUSTER, ["fastdns"]),
    "dot": (CLUSTER, ["fastdns"]),
    "doh": (CLUSTER, ["fastdns"]),
    "doq": (CLUSTER, ["fastdns"]),
    "python-plugin": (["--names", "50"], ["floor", "fastdns own", "fastdns beside", "fastdns without"]),
    "reload": (["--every", "0.05"], ["floor", "fastdns"]),
    "churn": (CLUSTER, ["floor", "fastdns"]),
    "churn --files": ([*CLUSTER, "--files"], ["floor", "fastdns"]),
    "relist": ([*CLUSTER, "--every", "0.1"], ["floor", "fastdns"]),
    "flood": ([*CLUSTER, "--random", "500"], ["floor", "fastdns"]),
    "gil": (["--names", "50"], ["floor", "fastdns quiet", "fastdns held"]),
    "log": (["--names", "50"], ["floor", "fastdns without", "fastdns with"]),
}


def test_every_scenario_is_tried() -> None:
    """That of transports is in test_clients."""
    assert {name.split()[0] for name in RUNS} == set(SCENARIOS) - {"transports"}


#: Seconds of load for scenarios that must see a change: what is tried first, and what a slow machine may need. Files are looked at every second.
TO_CHANGE = {"reload": (0.5, 5, 30), "churn": (0.5, 5, 30), "relist": (0.5, 5, 30), "churn --files": (1.3, 10, 30)}


@pytest.mark.parametrize("case", RUNS)
def test_scenarios(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = case.split()[0]
    if name == "doq":
        pytest.importorskip("aioquic")
    flags, subjects = RUNS[case]
    out, html = tmp_path / "run.json", tmp_path / "run.html"
    command = ["run", name, *flags, *SHORT, "--rate", "500", "--json", str(out), "--html", str(html)]
    for seconds in TO_CHANGE.get(case, (0.1,)):
        capsys.readouterr()
        assert cli.main([*command, "--seconds", str(seconds)]) == 0, capsys.readouterr()
        document = json.loads(out.read_text())
        if document["runs"][-1].get("propagation_s", True):
            break
    else:
        pytest.fail(f"no change was seen: {document['runs'][-1]['changes']} were made")
    assert [run["subject"] for run in document["runs"]] == subjects
    for run in document["runs"]:
        result = run["result"]
        assert result["sent"] == result["answered"] + result["lost"] > 0
        assert run["cpu_us_per_answer"] > 0
        assert run["ready_s"] > 0
        assert run["rss_peak_mb"] > 1
        baseline = SCENARIOS[name].baseline
        assert not baseline or run[f"ratio_to_{baseline}"] > 0
    assert html.read_text() == page([document])
    shown = capsys.readouterr().out.splitlines()
    for subject in subjects:
        assert any(line.startswith(subject + " ") for line in shown), subject


def test_compare_goes_in_rounds_and_names_who_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run.json"
    subjects = ["--subject", "fastdns", "--subject", f"knotd={tmp_path}/knotd", "--subject", "relay"]
    assert cli.main(["compare", "fixed", *subjects, *SHORT, "--rate", "200,max", "--rounds", "2", "--sweep", "2", "--json", str(out)]) == 0
    runs: list[dict[str, Any]] = json.loads(out.read_text())["runs"]
    assert [run["subject"] for run in runs] == ["floor"] * 3 + ["fastdns"] * 3
    for run in runs:
        # The parts of the highest rate are the server's own, and no round of the floor stands beside them.
        assert len(run["rounds"]) == (2 if run["rate"] in (0, 200) else 1)
    assert runs[3]["noise"] is not None
    said = capsys.readouterr().out
    assert f"skipped: knotd: {tmp_path}/knotd is not a program" in said
    assert "skipped: relay: has nothing to relay to in this work" in said


def test_conditions_fail_a_run_and_the_floor_is_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    judged = [argument for text in ("ready>0s", "ratio>10000", "NOERROR>0%") for argument in ("--fail-if", text)]
    assert cli.main(["run", "fixed", *SHORT, "--names", "50", "--rate", "200", "--progress", *judged]) == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[:3] for line in said if "FAILED" in line] == [
        ["FAILED", "fastdns at 200", "ready>0s"],
        ["FAILED", "fastdns at 200", "NOERROR>0%"],
    ]
    for label in ("floor", "fastdns"):
        assert any(line.startswith(label) and "/s of 200" in line for line in said), said


def test_figures_of_a_noisy_machine_are_void(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    html = tmp_path / "run.html"
    quiet = ["--seconds", "0.1", "--warm", "0", "--max-noise", "0", "--rate", "200", "--html", str(html)]
    assert cli.main(["run", "fixed", *quiet, "--fail-if", "ready>0s"]) == 2
    said = capsys.readouterr()
    assert re.fullmatch(r"void: noise \d+ %, at most 0 % are allowed\n", said.err)
    assert said.err in said.out
    assert said.err.strip() in html.read_text()


@pytest.fixture
def liar(tmp_path: Path) -> Path:
    """Takes a Corefile, has every plugin, and answers everything with the floor's address."""
    path = tmp_path / "liar"
    path.write_text(f"""#!{sys.executable}
import re, sys
if "-plugins" in sys.argv:
    print("kubernetes cache errors prometheus loadbalance")
    sys.exit()
from fastdns.bench.servers import native
sys.exit(native.main(["floor", "--port", re.match(r"[.]:(\\d+)", open(sys.argv[2]).read())[1]]))
""")
    path.chmod(0o755)
    return path


def test_wrong_answers_fail_the_run(liar: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    assert cli.main(["run", "cluster", *CLUSTER, *SHORT, "--rate", "200", "--subject", f"coredns={liar}", "--json", str(out)]) == 1
    floor, wrong = json.loads(out.read_text())["runs"]
    assert sum(wrong["result"]["wrong"].values()) == wrong["result"]["answered"] > 0
    assert not any(floor["result"]["wrong"].values())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["file", "--subject", "coredns=LIAR"], "coredns has no plugin file built in (coredns -plugins lists those that are)"),
        (["fixed", "--subject", "bind9"], "unknown server 'bind9'"),
        (["fixed", "--server-cpus", "4095"], "CPU 4095 is not one of those that may be used"),
        (["fixed", "--rate", "100", "--sweep", "3"], "--sweep takes parts of the highest rate"),
        (["relist", "--files"], "leave out --api and --files"),
        (["flood", "--share", "100"], "--share is between 0 and 100"),
        (["cluster", "--services", "-1"], "a cluster cannot have -1 services"),
        (["cluster", "--api", "http://127.0.0.1:1"], "http://127.0.0.1:1/api/v1/services cannot be listed"),
        (["tcp", "--subject", "floor"], "floor does not answer over tcp"),
        (["doq", "--subject", "unbound=LIAR"], "unbound does not answer over doq"),
        (["transports", "--rate", "5000"], "transports knows no rates"),
        (["transports", "--client", "ghz", "--transport", "dot"], "no client asks over these transports"),
    ],
)
def test_what_cannot_be_measured_is_said(arguments: list[str], said: str, liar: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [argument.replace("LIAR", str(liar)) for argument in arguments]
    assert cli.main(["run", *given, *SHORT]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("rates", ["0", "-1", "fast", "5000,,max", "nan", "inf"])
def test_rates_that_are_none(rates: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["run", "fixed", "--rate", rates])
    assert "is neither a number above 0 nor max" in capsys.readouterr().err
