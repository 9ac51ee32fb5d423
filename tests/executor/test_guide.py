"""docs/writing-plugins.md: its examples are typed, its tests pass, its plugins serve."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import dns.rcode
import pytest

from tests.conformance.kube_api import KubeAPI
from tests.server import Server, free_port
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "writing-plugins.md"

pytestmark = pytest.mark.skipif(not GUIDE.is_file(), reason="the source tree is not here")


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with each example in the file that its first line names."""
    folder = tmp_path_factory.mktemp("guide")
    for code in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.S):
        name = re.match(r"# (\w+\.py)\n", code)
        assert name, f"an example without a file name: {code[:60]}"
        (folder / name[1]).write_text(code)
    return folder


def run(folder: Path, *command: str) -> None:
    env = {**os.environ, "MYPYPATH": str(ROOT / "build" / "tree"), "PYTHONPATH": str(folder)}
    done = subprocess.run([sys.executable, "-m", *command], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_the_examples_are_typed(examples: Path) -> None:
    pytest.importorskip("mypy")
    files = sorted(path.name for path in examples.glob("*.py"))
    assert len(files) >= 7
    run(examples, "mypy", "--strict", "--follow-imports=silent", "--config-file=", "--cache-dir", str(examples / ".mypy_cache"), *files)


def test_the_first_example_is_short(examples: Path) -> None:
    assert len((examples / "hello.py").read_text().splitlines()) <= 12


def test_the_tests_of_the_guide_pass(examples: Path) -> None:
    run(examples, "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(examples), "-c", os.devnull, ".")


def test_the_plugins_of_the_guide_serve(serve: Callable[..., Server], examples: Path) -> None:
    lines = "".join(f" plugin {examples}/{name}\n" for name in ("hello.py", "nomail.py", "denylist.py ads.example. x.example."))
    server = serve(f".:{{port}} {{\n bind 127.0.0.1\n{lines} whoami\n}}\n")
    assert server.answers("hello.example.", "TXT") == ['"hello, 127.0.0.1"']
    assert server.query("other.example.").additional
    assert server.query("other.example.", "MX").rcode() == dns.rcode.NXDOMAIN
    for name in ("ads.example.", "a.ads.example.", "b.X.example."):
        assert server.answers(name) == server.answers(name, "TXT") == ["NXDOMAIN"]
    for _ in range(2):
        assert server.query("bads.example.").additional


def test_the_policy_of_the_guide(serve: Callable[..., Server], examples: Path) -> None:
    objects = """
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: lab}}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: shop}, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1]}}
---
{apiVersion: v1, kind: Service, metadata: {name: db, namespace: lab}, spec: {clusterIP: 10.0.0.2, clusterIPs: [10.0.0.2]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {}, status: {podIP: 127.0.0.1, phase: Running}}
"""
    kubernetes = "kubernetes cluster.local {\n manifests {dir}/objects.yaml\n pods verified\n }"
    corefile = f".:{{port}} {{\n bind 127.0.0.1\n plugin {examples}/tenants.py\n {kubernetes}\n}}\n"
    server = serve(corefile, prepare=lambda folder: (folder / "objects.yaml").write_text(objects))
    assert server.answers("db.shop.svc.cluster.local.") == ["10.0.0.1"]
    assert server.answers("db.lab.svc.cluster.local.") == ["REFUSED"]
    assert server.answers("db.shop.svc.cluster.local.", source="127.0.0.2") == ["REFUSED"]


def machine(name: str, *addresses: str, **spec: object) -> dict[str, object]:
    spec = {"addresses": list(addresses), **spec}
    return {"apiVersion": "machines.example.net/v1", "kind": "Machine", "metadata": {"namespace": "lab", "name": name}, "spec": spec}


def test_the_plugin_of_a_custom_resource_is_short(examples: Path) -> None:
    assert len((examples / "machines.py").read_text().splitlines()) <= 30


def test_the_plugin_of_a_custom_resource(serve: Callable[..., Server], examples: Path) -> None:
    """Objects are answered, changed and gone; one that is not as declared, or whose name is none, is left out."""
    api = KubeAPI(free_port(), [machine("one", "192.0.2.1", "2001:db8::1"), machine("two", "192.0.2.2", hostname="web.machines.test", ttl=7)])
    try:
        options = f"{{\n  endpoint {api.url}\n }}"
        server = serve(f".:{{port}} {{\n bind 127.0.0.1\n plugin {examples}/machines.py machines.test {options}\n whoami\n}}\n")
        assert server.answers("one.lab.machines.test.") == ["192.0.2.1"]
        assert server.answers("one.lab.machines.test.", "AAAA") == ["2001:db8::1"]
        assert server.query("web.machines.test.").answer[0].ttl == 7
        assert server.answers("machines.test.", "NS") == ["ns1.dns.machines.test."]
        assert server.query("other.test.").additional
        api.apply(machine("bad", "192.0.2.3", hostname=["a", "list"]))
        api.apply(machine("worse", "192.0.2.4", hostname="a..b"))
        api.apply(machine("one", "192.0.2.9"))
        server.until("one.lab.machines.test.", "A", ["192.0.2.9"])
        assert server.answers("bad.lab.machines.test.") == ["NXDOMAIN"]
        api.delete("machines lab/one")
        server.until("one.lab.machines.test.", "A", ["NXDOMAIN"])
        until(lambda: "machines.machines.example.net: lab/bad is skipped: Expected `str | null`" in server.log())
        until(lambda: "machines.machines.example.net lab/worse: no host name: 'a..b'" in server.log())
    finally:
        api.stop()
