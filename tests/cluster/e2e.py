"""Kubernetes' own e2e tests, by its own program, and what they found."""

from __future__ import annotations

import subprocess
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

from tests.cluster.control_plane import ControlPlane

__all__ = ["NAMES", "SCALE", "Spec", "Suite", "read", "run"]


class Suite(NamedTuple):
    """Regular expressions of Ginkgo over the full names of specs."""

    name: str
    focus: str
    skip: str
    #: Seconds, after which it has failed.
    limit: int = 3600


#: Those of DNS, slow, serial and of features that are off by default among them, and those of services that look names up. What a provider has is skipped.
NAMES = Suite("DNS", r"\[sig-network\] (DNS |Services .*(ExternalName|create endpoints for unready pods))", r"\[Provider:")
#: 10,000 services, and one of them asked for.
SCALE = Suite("10,000 services", r"\[sig-network\].*\[Feature:PerformanceDNS\]", "^$", 7200)


class Spec(NamedTuple):
    name: str
    #: ``passed`` or ``failed``.
    status: str
    seconds: float
    #: Of a failure.
    message: str = ""


def run(control: ControlPlane, suite: Suite, folder: Path) -> list[Spec]:
    """Runs a suite from the host of the control plane. Its output and JUnit file go to the folder. Raises RuntimeError where no spec ran."""
    folder.mkdir(parents=True, exist_ok=True)
    junit = folder / "junit_01.xml"
    command = [
        str(control.programs / "e2e.test"), f"--kubeconfig={control.certificates.conf('admin')}", "--provider=skeleton", f"--report-dir={folder}",
        f"--kubectl-path={control.programs / 'kubectl'}",
        f"--ginkgo.focus={suite.focus}", f"--ginkgo.skip={suite.skip}", "--ginkgo.no-color", f"--ginkgo.timeout={suite.limit}s",
    ]  # fmt: skip
    began = time.monotonic()
    with (folder / "output").open("w") as output:
        subprocess.run(control.host.entered(*command), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd="/", timeout=suite.limit + 60)
    specs = read(junit.read_text()) if junit.exists() else []
    if not specs:
        raise RuntimeError(f"{suite.name}: no spec ran in {time.monotonic() - began:.0f} s; see {folder}/output")
    return specs


def read(junit: str) -> list[Spec]:
    """The specs that ran, by Ginkgo's JUnit file. What only prepares and cleans up counts where it fails."""
    found = []
    for case in ElementTree.fromstring(junit).iter("testcase"):
        status = case.get("status", "")
        if status == "skipped" or (not case.get("name", "").startswith("[It]") and status == "passed"):
            continue
        failure = case.find("failure") if case.find("failure") is not None else case.find("error")
        message = "" if failure is None else (failure.get("message") or failure.text or "")
        found.append(Spec(case.get("name", "").removeprefix("[It] "), "passed" if status == "passed" else "failed", float(case.get("time", "0")), message))
    return found
