"""The report of a cluster behind an API server: what is asked, what is refused, what is hostile, and whether the printed commands do what they say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.process import ApiServer
from tests.migrate.api import FakeApi, plural_of
from tests.migrate.clusters import Json, cluster, container, find, kubeadm, node_local
from tests.migrate.conftest import Outcome, run
from tests.waiting import LIMIT

Fake = Callable[..., tuple[FakeApi, list[str]]]

#: A name of each kind that a terminal or a shell would take for something else.
ESCAPE = "\x1b]0;owned\x07\x1b[31m"
SHELL = "$(touch /tmp/owned);`id`|&\n"


def test_the_report_is_that_of_the_files(fake: Fake, offline: Callable[..., Outcome]) -> None:
    objects = kubeadm() + node_local("10.96.0.10")
    api, words = fake(objects)
    found = run("-json", *words)
    assert (found.status, found.err) == (0, "")
    assert found.report == offline(objects).report
    assert {line.split()[0] for line in api.asked} == {"GET"}
    assert not [line for line in api.asked if "secrets" in line]
    assert sum("/namespaces/kube-system/configmaps/coredns" in line for line in api.asked) == 1, "by its name, once"


def test_lists_are_read_page_by_page(fake: Fake) -> None:
    objects = [*[cluster("apps/v1", "Deployment", f"d{number}", spec={}) for number in range(7)], *kubeadm()]
    api, words = fake(objects)
    assert run("-json", *words).report["workload"] == "Deployment/coredns"
    assert sum("/deployments?" in line for line in api.asked) == 4


REFUSED = [
    ("clusterrolebindings", "list clusterrolebindings.rbac.authorization.k8s.io in the cluster", "its rights could not be checked"),
    ("configmaps", "get configmaps coredns in the namespace kube-system", "the Corefile is not checked: ConfigMap/coredns, which has it, was not read"),
    ("horizontalpodautoscalers", "list horizontalpodautoscalers.autoscaling in the namespace kube-system", ""),
    ("servicemonitors", "list servicemonitors.monitoring.coreos.com in the cluster", ""),
]


@pytest.mark.parametrize(("resource", "right", "said"), REFUSED)
def test_what_is_refused_is_named_and_the_rest_is_read(fake: Fake, resource: str, right: str, said: str) -> None:
    _, words = fake(kubeadm(), refused=(resource,))
    found = run("-json", *words)
    assert found.status == 2
    assert f"the right to {right} is missing" in [row["text"] for row in found.report["unread"]]
    assert said in found.said()
    assert found.commands("Change")
    text = run(*words).out
    assert f"\n  the right to {right} is missing\n" in text.partition("\nNot read:\n")[2] or f"\nNot read:\n  the right to {right} is missing\n" in text


def test_no_right_to_read_deployments(fake: Fake) -> None:
    _, words = fake(kubeadm(), refused=("deployments",))
    found = run(*words)
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith("the right to list deployments.apps in the namespace kube-system is missing; no Deployment")


@pytest.mark.parametrize(
    ("status", "said"), [(401, "the API server: no\ufffd[31m (status 401)\n"), (500, "cannot list deployments.apps in the namespace kube-system: no")]
)
def test_an_api_server_that_fails(fake: Fake, status: int, said: str) -> None:
    _, words = fake([], status=status)
    found = run(*words)
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith(said)
    assert "\x1b" not in found.err


def test_an_api_server_that_is_away(fake: Fake) -> None:
    _, words = fake([])
    found = run(*words[:2])  # its current context
    assert (found.status, found.out) == (2, "")
    assert "connection refused" in found.err


def test_the_kubeconfig_of_kubectl(fake: Fake) -> None:
    _, words = fake(kubeadm())
    found = run("-json", *words[2:], env={"PATH": os.environ["PATH"], "KUBECONFIG": words[1]})
    assert found.status == 0


# ---- what is hostile ----


def hostile() -> list[Json]:
    objects = kubeadm(image=f"registry/{ESCAPE}{SHELL}")
    for row in objects:
        row["metadata"].setdefault("labels", {})[ESCAPE] = SHELL
    find(objects, "Service", "kube-dns")["metadata"]["name"] = ESCAPE + SHELL
    find(objects, "ConfigMap")["data"]["Corefile"] += f"{ESCAPE.replace(chr(10), '')} {{\n {ESCAPE}x\n}}\n"
    container(objects)["env"] = [{"name": ESCAPE, "value": SHELL}]
    labels = find(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    labels["EOF\nEOF\n"] = SHELL
    find(objects, "Service", ESCAPE + SHELL)["spec"]["selector"] = dict(labels)
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "coredns"}, "metrics": [{"type": ESCAPE}]}
    objects.append(cluster("autoscaling/v2", "HorizontalPodAutoscaler", SHELL, spec=spec))
    return objects


def test_names_do_nothing_to_a_terminal(fake: Fake) -> None:
    _, words = fake(hostile())
    for more in ((), ("-json",)):
        found = run(*words, *more)
        assert found.status == 1
        assert not [letter for letter in found.out + found.err if not letter.isprintable() and letter != "\n"]


def test_names_do_nothing_to_a_shell(fake: Fake, tmp_path: Path) -> None:
    """The whole plan, run by a shell whose commands write down their words: nothing else is run."""
    objects = hostile()
    objects[0]["spec"]["template"]["spec"]["containers"][0]["image"] = "registry/a';touch owned;'$(touch owned)`touch owned`"
    _, words = fake(objects)
    found = run("-json", *words, "-image", "$(touch owned)' \"`touch owned`")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("kubectl", "tcpdump", "fastdns"):
        (programs / name).write_text('#!/bin/sh\nprintf "%s\\0" "$@" >>words\nprintf "\\n" >>words\n')
        (programs / name).chmod(0o755)
    lines = [*found.commands(), *(row["command"] for row in found.findings() if row["command"])]
    done = subprocess.run(
        ["/bin/sh"], input="\n".join(lines), text=True, cwd=tmp_path, env={"PATH": f"{programs}:/usr/bin:/bin"}, capture_output=True, timeout=LIMIT
    )
    assert not list(tmp_path.rglob("owned"))
    assert "not found" not in done.stderr
    images = [line.split("\0") for line in (tmp_path / "words").read_text().split("\n") if "\0image\0" in line]
    assert [line[5] for line in images] == ["coredns=$(touch owned)' \"`touch owned`", "coredns=registry/a';touch owned;'$(touch owned)`touch owned`"]


@pytest.mark.parametrize("name", ["a;id", "../../x", ESCAPE, "-x", ""])
def test_names_that_no_api_server_accepts(fake: Fake, name: str) -> None:
    objects = kubeadm()
    objects[0]["metadata"]["name"] = name
    _, words = fake(objects)
    found = run(*words)
    assert (found.status, found.out) == (2, "")
    assert "no API server accepts such a name" in found.err
    assert "\x1b" not in found.err


SHAPES: list[Any] = [None, 5, [], {}, "x", [[]], {"containers": "x"}, {"containers": [{"name": "a", "image": "coredns", "args": [5], "ports": 5, "env": [{}]}]}]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_objects_of_another_shape(offline: Callable[..., Outcome], shape: Any) -> None:
    """A defect is status 1 with a traceback's line; these are sentences or reports."""
    objects = kubeadm()
    objects[0]["spec"]["template"]["spec"] = shape
    for row in objects[1:]:
        row.update(dict.fromkeys(("data", "spec", "rules", "subjects", "roleRef"), shape))
    found = offline(objects)
    assert "Error: " not in found.err.replace("MigrateError: ", "")
    assert found.out or found.status == 2


def test_a_config_map_that_leads_out_of_its_folder(offline: Callable[..., Outcome], tmp_path: Path) -> None:
    objects = kubeadm()
    volume = find(objects, "Deployment")["spec"]["template"]["spec"]["volumes"][0]["configMap"]
    volume["items"] += [{"key": "Corefile", "path": f"../../../../..{tmp_path}/out"}, {"key": "Corefile", "path": f"{tmp_path}/out"}]
    assert offline(objects).status == 0
    assert not (tmp_path / "out").exists()


def test_code_of_the_cluster_is_not_run(offline: Callable[..., Outcome], tmp_path: Path) -> None:
    objects = kubeadm(".:53 {\n    import /etc/coredns/more\n    whoami\n}\n")
    del find(objects, "Deployment")["spec"]["template"]["spec"]["volumes"][0]["configMap"]["items"]
    data = {"more": "plugin /etc/coredns/code.py", "code.py": f"open({str(tmp_path / 'owned')!r}, 'w')\ndef setup(controller): pass\n"}
    find(objects, "ConfigMap")["data"] |= data
    found = offline(objects)
    assert found.status == 1
    assert "/etc/coredns/more:1: plugin names a Python file" in found.said("error")
    assert not (tmp_path / "owned").exists()


# ---- the commands, run ----


@pytest.fixture(scope="module")
def server(cluster_programs: Path) -> Iterator[ApiServer]:
    """An API server with kubeadm's cluster."""
    running = ApiServer()
    try:
        for row in kubeadm():
            root = "/api/v1" if row["apiVersion"] == "v1" else f"/apis/{row['apiVersion']}"
            if row["kind"] in ("Deployment", "ConfigMap", "Service"):
                running.ask("POST", f"{root}/namespaces/kube-system/{plural_of(row['kind'])}", row)
        yield running
    finally:
        running.stop()


def deployment(server: ApiServer, name: str = "coredns") -> Any:
    return server.ask("GET", f"/apis/apps/v1/namespaces/kube-system/deployments/{name}")


def test_a_real_api_server(server: ApiServer) -> None:
    found = run("-json", "-kubeconfig", server.info["kubeconfig"])
    assert found.err == ""
    assert found.report["workload"] == "Deployment/coredns"
    assert found.report["found"]["services"] == ["kube-dns 10.96.0.10 53/UDP 53/TCP 9153/TCP"]
    assert found.report["unread"] == [], "API groups that are not there are no error"
    # It has no RBAC, so no role is bound.
    assert found.status == 1
    assert "no role lets it list and watch services, which kubernetes needs" in found.said("error")


def kubectl(server: ApiServer, line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "KUBECONFIG": server.info["kubeconfig"], "HOME": str(folder)}
    return subprocess.run(["/bin/bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT)


def patched(server: ApiServer, line: str) -> Any:
    """A printed `kubectl patch` of the Deployment or the trial, sent by hand: for machines without kubectl too."""
    import shlex

    words = shlex.split(line)
    assert words[:4] == ["kubectl", "-n", "kube-system", "patch"]
    kind = words[words.index("--type") + 1] if "--type" in words else "strategic"
    patch = json.loads(words[words.index("-p" if "-p" in words else "--patch") + 1])
    resource, name = words[4].split("/") if "/" in words[4] else words[4:6]
    root = "/api/v1" if resource == "configmap" else "/apis/apps/v1"
    content = {"json": "json-patch", "merge": "merge-patch", "strategic": "strategic-merge-patch"}[kind]
    return server.ask("PATCH", f"{root}/namespaces/kube-system/{resource}s/{name}", patch, f"application/{content}+json")


def test_patches_change_and_go_back(server: ApiServer) -> None:
    """What has to change along with the image: a probe that runs a shell, an unknown argument, a capability."""
    path = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"
    before = deployment(server)["spec"]
    container = "/spec/template/spec/containers/0"
    operations = [
        {"op": "replace", "path": f"{container}/livenessProbe", "value": {"exec": {"command": ["/bin/true"]}, "periodSeconds": 7}},
        {"op": "add", "path": f"{container}/args/-", "value": "-alsologtostderr"},
        {"op": "remove", "path": f"{container}/securityContext/capabilities/add"},
    ]
    server.ask("PATCH", path, operations, "application/json-patch+json")
    try:
        former = deployment(server)["spec"]
        found = run("-json", "-kubeconfig", server.info["kubeconfig"], "-image", "example.org/fastdns:v1.14.7")
        (there,) = [line for line in found.commands("Change") if " patch " in line]
        (back,) = [line for line in found.commands("Go back") if " patch deployment/" in line]
        patched(server, there)
        new = deployment(server)["spec"]["template"]["spec"]["containers"][0]
        assert new["image"] == "example.org/fastdns:v1.14.7"
        assert new["args"] == ["-conf", "/etc/coredns/Corefile"]
        assert new["livenessProbe"] == {"httpGet": {"path": "/health", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 7}
        assert new["securityContext"]["capabilities"] == {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}
        after = run("-json", "-kubeconfig", server.info["kubeconfig"])
        assert "not in the image" not in after.said()
        patched(server, back)
        assert deployment(server)["spec"] == former
    finally:
        server.ask("PATCH", path, [{"op": "replace", "path": "/spec", "value": before}], "application/json-patch+json")


def test_a_patch_is_for_the_container_that_was_seen(server: ApiServer) -> None:
    path = "/apis/apps/v1/namespaces/kube-system/deployments/coredns"
    before = deployment(server)["spec"]
    server.ask("PATCH", path, [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "-x"}], "application/json-patch+json")
    try:
        found = run("-json", "-kubeconfig", server.info["kubeconfig"])
        sidecar = {"name": "sidecar", "image": "busybox"}
        server.ask("PATCH", path, [{"op": "add", "path": "/spec/template/spec/containers/0", "value": sidecar}], "application/json-patch+json")
        with pytest.raises(AssertionError, match="422"):
            patched(server, next(line for line in found.commands("Change") if " patch " in line))
    finally:
        server.ask("PATCH", path, [{"op": "replace", "path": "/spec", "value": before}], "application/json-patch+json")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
def test_the_whole_plan_by_kubectl(server: ApiServer, tmp_path: Path) -> None:
    """Each command in its order, but for those that need pods: these have none here."""
    found = run("-json", "-kubeconfig", server.info["kubeconfig"], "-image", "example.org/fastdns:v1.14.7")
    before = deployment(server)["spec"]
    needs_pods = (" rollout ", " exec ", " logs ", "TRIAL", "tcpdump", " create clusterrole")

    def done(title: str, *wanted: str) -> None:
        for line in found.commands(title):
            if not any(word in line for word in needs_pods) and all(word in line for word in wanted):
                ran = kubectl(server, line, tmp_path)
                assert ran.returncode == 0, f"{line}\n{ran.stderr}"

    done("Before")
    probe = deployment(server)["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]
    assert (probe["periodSeconds"], probe["failureThreshold"], probe["httpGet"]["path"]) == (1, 1, "/ready")
    kept = json.loads((tmp_path / "coredns-data.json").read_text())
    assert kept["Corefile"].startswith(".:53 {")
    assert "kind: Deployment" in (tmp_path / "coredns-before.yaml").read_text()

    done("Try it", "create")
    trial = deployment(server, "coredns-fastdns")
    assert trial["spec"]["replicas"] == 1
    assert trial["spec"]["template"]["metadata"]["labels"] == {"fastdns-trial": "coredns"}
    assert trial["spec"]["template"]["spec"]["containers"][0]["image"] == "example.org/fastdns:v1.14.7"
    done("Try it", "patch")
    assert deployment(server, "coredns-fastdns")["spec"]["template"]["metadata"]["labels"] == {"fastdns-trial": "coredns", "k8s-app": "kube-dns"}
    assert "k8s-app" not in deployment(server, "coredns-fastdns")["metadata"]["labels"], "kubeadm refuses a second one"
    done("Try it", "delete")
    with pytest.raises(AssertionError, match="404"):
        deployment(server, "coredns-fastdns")

    done("Change")
    assert deployment(server)["spec"]["template"]["spec"]["containers"][0]["image"] == "example.org/fastdns:v1.14.7"
    server.ask("PATCH", "/api/v1/namespaces/kube-system/configmaps/coredns", {"data": {"Corefile": "changed"}}, "application/merge-patch+json")
    done("Go back")
    now = deployment(server)["spec"]["template"]["spec"]["containers"][0]
    assert now["image"] == before["template"]["spec"]["containers"][0]["image"]
    assert server.ask("GET", "/api/v1/namespaces/kube-system/configmaps/coredns")["data"] == kept
