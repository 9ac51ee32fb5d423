"""``python -m tests.cluster``: brings a cluster up, runs Kubernetes' tests against fastdns and CoreDNS, prints one page and takes everything down."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from tests.cluster import e2e, faults, kubeadm, manifests, node_cache, programs, simulated
from tests.cluster.churn import DEPLOYMENTS
from tests.cluster.cluster import Cluster, cluster
from tests.cluster.deployment import Deployment
from tests.cluster.images import BASELINE, FASTDNS, Images
from tests.cluster.page import Page, said
from tests.cluster.rolling import Client
from tests.cluster.scene import Scene
from tests.golang import Unbuildable
from tools import system_packages

PARTS = ("kubeadm", "e2e", "rolling", "faults", "manifests", "node-cache")
#: Those that run only when they are named: they take long.
LONG = ("scale", "simulated")
#: Those that bring up what they need themselves.
ALONE = {"kubeadm", "simulated"}
SERVERS = {"fastdns": FASTDNS, "coredns": BASELINE}
ROOT = Path(__file__).resolve().parents[2]


class Choice(NamedTuple):
    """What is run: parts, faults by name, the chart of which a release is upgraded, and how many deployments simulated nodes have."""

    parts: Collection[str]
    faults: Collection[str]
    chart: Path
    deployments: int
    folder: Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="a shell with kubectl at the end; the cluster is taken down when the shell ends")
    parser.add_argument("--only", action="append", choices=PARTS + LONG, help="a part to run, in place of all but the long ones; may be repeated", default=[])
    parser.add_argument("--server", action="append", choices=SERVERS, help="a server to test, in place of both; may be repeated", default=[])
    parser.add_argument(
        "--fault", action="append", metavar="TEXT", help="those faults whose names have a text in them, in place of all; may be repeated", default=[]
    )
    parser.add_argument(
        "--coredns-chart", type=Path, metavar="FOLDER", help="CoreDNS's own chart, of which a release is upgraded; without it that is a release of this one"
    )
    parser.add_argument("--deployments", type=int, default=DEPLOYMENTS, help="of simulated nodes; each has ten pods and ten services")
    parser.add_argument("--run", metavar="NAME", default="run", help="the folder of this run, where another one is under way")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--proxy-mode", choices=("nftables", "iptables"), default="nftables")
    options = parser.parse_args()
    if os.geteuid():
        return _refused("needs root, for namespaces")
    if missing := system_packages.ensure_build(system_packages.CLUSTER):
        return _refused(missing)
    # What is under way ends as with Ctrl-C, and all that was started with it.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    parts = options.only or PARTS
    page = Page(options.server or list(SERVERS), 0 if set(parts) <= ALONE else options.nodes, options.proxy_mode)
    try:
        chosen = [name for name in faults.NAMES if any(text in name for text in options.fault or [""])]
        choice = Choice(parts, chosen, options.coredns_chart or manifests.CHART, options.deployments, programs.CACHE / options.run)
        run(page, choice, options.keep)
    except (Unbuildable, RuntimeError, AssertionError, subprocess.TimeoutExpired) as error:
        page.failures.append(f"{type(error).__name__}: {error}")
    folder = ROOT / "build/cluster"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.md").write_text(page.text())
    print(page.text())
    return int(bool(page.failures))


def run(page: Page, choice: Choice, keep: bool) -> None:
    folder = choice.folder
    if "simulated" in choice.parts:
        with page.timed("programs of simulated nodes"):
            built = programs.build(*simulated.PROGRAMS)
        shutil.rmtree(folder, ignore_errors=True)
        with page.timed("simulated nodes"):
            simulated.run(page, folder, built, choice.deployments)
        if set(choice.parts) == {"simulated"}:
            return
    with page.timed("programs"):
        built = programs.build()
    images = Images(built)
    with page.timed("images"):
        images.build()
    shutil.rmtree(folder, ignore_errors=True)
    if "kubeadm" in choice.parts:
        with page.timed("images of kubeadm's control plane"):
            archives = kubeadm.archives(images)
        kubeadm.run(page, folder, built, archives, images.tools)
    if set(choice.parts) <= ALONE:
        return
    with cluster(folder, built, page.nodes) as made:
        try:
            with page.timed("control plane and nodes"):
                made.start(images.archives, page.proxy_mode)
            for server in page.servers:
                test(page, made, server, images.tools, choice)
        finally:
            if keep and sys.stdin.isatty():
                made.control.shell()


def test(page: Page, made: Cluster, server: str, tools: str, choice: Choice) -> None:
    """What is chosen for one server, in place of the one before."""
    control = made.control
    deployment = Deployment(control, SERVERS[server])
    page.add("ready after", server, f"{deployment.install():.1f} s")
    page.add_memory("memory of each pod at the start", server, made.memory())
    for part, suite in (("e2e", e2e.NAMES), ("scale", e2e.SCALE)):
        if part in choice.parts:
            with page.timed(f"{server}: e2e: {suite.name}") as began:
                specs = e2e.run(control, suite, made.folder / "e2e" / f"{server}-{part}")
                page.add_specs(suite.name, server, specs, time.monotonic() - began)
            page.add_memory(f"memory of each pod after e2e: {suite.name}", server, made.memory())
    client = Client(control, made.nodes[0], tools)
    scene = Scene(control, made.nodes, made.network, deployment, client)
    if "rolling" in choice.parts:
        with page.timed(f"{server}: rolling update"):
            page.add_loss("rolling update, kubeadm's manifest", server, client.during(deployment.restart))
            deployment.install_own()
            page.add_loss("rolling update, deploy/kubernetes", server, client.during(deployment.restart))
            deployment.install()
    if "faults" in choice.parts:
        with page.timed(f"{server}: faults"):
            for name, outcome in faults.run(scene, choice.faults):
                page.add_fault(name, server, outcome)
                said(f"{server}: {name}: {page.faults[name][server]}")
    if server == "fastdns":
        test_own(page, scene, tools, choice)
    client.close()


def test_own(page: Page, scene: Scene, tools: str, choice: Choice) -> None:
    """What this project alone has: its manifests, its chart and its cache on every node."""
    if "node-cache" in choice.parts:
        with page.timed("node cache"):
            for what, loss in node_cache.losses(scene, page.proxy_mode):
                page.add_loss(f"the cache on every node {what}", "fastdns", loss)
    if "manifests" in choice.parts:
        with page.timed("manifests"):
            for what, found in manifests.run(manifests.Place(scene, tools, choice.chart)):
                page.add_check(what, "fastdns", found)
                said(f"{what}: {page.rows[what]['fastdns']}")


def _refused(why: str) -> int:
    said(why)
    return 2


if __name__ == "__main__":
    sys.exit(main())
