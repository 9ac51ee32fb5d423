"""The indexed Job that runs workers in a cluster: its command line is one that `worker` takes, and its logs are what `merge` adds up."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from fastdns.bench import cli
from fastdns.bench.result import Target
from tests.bench.scripted import Scripted, reply

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "bench"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the source tree is not here")


@pytest.fixture(scope="module")
def objects() -> dict[str, Any]:
    found = list(yaml.safe_load_all((FOLDER / "job.yaml").read_text()))
    assert len({each["kind"] for each in found}) == len(found)
    return {each["kind"]: each for each in found}


def command_line(job: dict[str, Any], **changed: str) -> list[str]:
    """The container's arguments as the kubelet expands them."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    values = {each["name"]: each["value"] for each in container["env"]} | changed
    return [re.sub(r"\$\((\w+)\)", lambda found: values[found[1]], argument) for argument in container["args"]]


def test_the_command_line(objects: dict[str, Any]) -> None:
    job = objects["Job"]["spec"]
    given = cli.parser().parse_args(command_line(objects["Job"]))
    assert given.run.__module__ == "fastdns.bench.worker"
    assert job["completionMode"] == "Indexed"
    assert given.index is None  # taken from the Job's index
    assert job["completions"] == job["parallelism"] == given.workers
    assert given.target == Target("kube-dns.kube-system.svc.cluster.local", 53)
    assert (given.rate, given.seconds, given.live) == (20000, 60, True)
    assert job["template"]["spec"]["restartPolicy"] == "Never"


def test_the_account_may_list_what_workers_read(objects: dict[str, Any]) -> None:
    account = objects["ServiceAccount"]["metadata"]
    pod = objects["Job"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["name"]
    assert objects["ClusterRoleBinding"]["subjects"] == [{"kind": "ServiceAccount", **account}]
    assert objects["ClusterRoleBinding"]["roleRef"]["name"] == objects["ClusterRole"]["metadata"]["name"]
    listed = {resource for rule in objects["ClusterRole"]["rules"] for resource in rule["resources"] if rule["verbs"] == ["list"]}
    assert listed == {"services", "pods", "namespaces", "endpointslices"}


def test_the_workers_of_a_job_and_the_logs_of_all_pods(
    objects: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the README says, but for the cluster whose names are asked for."""
    queries = tmp_path / "queries"
    queries.write_text("www.example.org A\n")
    with Scripted(lambda query: [reply(query, "10.0.0.1")]) as server:
        logs = ""
        for index in range(4):
            monkeypatch.setenv("JOB_COMPLETION_INDEX", str(index))
            for left in (0.5, 5.0, 50.0):  # a busy machine may not be ready in time: status 2
                given = command_line(objects["Job"], TARGET=f"127.0.0.1:{server.port}", START=str(time.time() + left), RATE="400", SECONDS="0.1")
                with contextlib.redirect_stderr(io.StringIO()) as told:
                    status = cli.main([f"--queries={queries}" if "--live" in each or "--mix" in each else each for each in given])
                if status != 2:
                    break
            assert status == 0, told.getvalue()
            logs += told.getvalue() + capsys.readouterr().out
        assert server.queries == 40
    monkeypatch.setattr(sys, "stdin", io.StringIO(logs))
    assert cli.main(["merge", "--workers", "4", "--fail-if", "lost>0", "-"]) == 0
    assert "answered  40 of 40" in capsys.readouterr().out
