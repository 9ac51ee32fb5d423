"""acl: policies for pods, by their namespace and labels."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fastdns.corefile import CorefileError
from fastdns.corefile.lexer import Token
from fastdns.plugins.acl.rules import NAMESPACE, Policy, parse
from fastdns.setup import Controller
from tests.plugins.acl.test_acl import BLOCKED, FILTERED, PASSES, TEN, ZONE, outcome
from tests.server import Server, command
from tests.waiting import LIMIT, until

PLACE = Token("Testfile", 2, "")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("allow namespace a", Policy("allow", conditions=(((NAMESPACE, "a"),),))),
        (
            "allow NAMESPACE a b net 10.0.0.0/8 namespace c",
            Policy("allow", networks=(TEN,), conditions=(((NAMESPACE, "a"), (NAMESPACE, "b"), (NAMESPACE, "c")),)),
        ),
        ("drop type A label app=x", Policy("drop", (1,), conditions=((("client-label/app", "x"),),))),
        (
            "block label a=b=c a= Label x.org/y=z namespace n",
            Policy("block", conditions=(((NAMESPACE, "n"),), (("client-label/a", "b=c"), ("client-label/a", "")), (("client-label/x.org/y", "z"),))),
        ),
    ],
)
def test_conditions(line: str, wanted: Policy) -> None:
    ((zones, (policy,)),) = parse(Controller.of(f"acl {{\n {line}\n}}", ["example.org"]))
    assert zones == ZONE
    assert policy.place is not None
    assert policy.place.line == 2
    assert policy._replace(place=None) == wanted


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("block namespace", 'no token specified in "namespace" section'),
        ("block label type A", 'no token specified in "label" section'),
        ("block label app", 'unexpected token "app"; expect KEY=VALUE'),
        ("block label =x", 'unexpected token "=x"; expect KEY=VALUE'),
        ("block namespace " + "x" * 64, f'"{"x" * 64}" is longer than 63 octets'),
        ("block label a=" + "x" * 64, f'"{"x" * 64}" is longer than 63 octets'),
    ],
)
def test_errors(line: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse(Controller.of(f"acl {{\n {line}\n}}"))
    assert str(caught.value) == f"Testfile:2 - Error during parsing: {message}"


def pod(name: str, address: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    namespace, _, name = name.partition("/")
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"podIP": address, "phase": "Running"}}


PODS = [
    pod("shop/web", "127.0.0.10", {"app": "web", "tier": "front"}),
    pod("shop/db", "127.0.0.11", {"app": "db", "empty": ""}),
    pod("lab/web", "127.0.0.12", {"app": "web", "x.org/role": "probe"}),
    pod("kube-system/agent", "127.0.0.20", {"app": "web"}, hostNetwork=True),
    # One of these goes, and the other one has its address already.
    pod("shop/old", "127.0.0.21", {"app": "web"}),
    pod("lab/new", "127.0.0.21", {"app": "web"}),
    pod("shop/plain", "127.0.0.22", {"app": "web"}),
    pod("kube-system/proxy", "127.0.0.22", {"app": "web"}, hostNetwork=True),
    pod("lab/nameless", ""),
    pod("shop/six", "::1", {"app": "web"}),
]

#: Zone -> its policies.
RULES = {
    "namespace": "allow namespace shop other\n block",
    "label": "allow label app=web app=none\n block",
    "both": "allow namespace shop label app=web\n block",
    "two": "allow label app=web label tier=front tier=back\n block",
    "key": "allow label x.org/role=probe empty=\n block",
    "net": "allow net 127.0.0.10 127.0.0.12 namespace shop\n filter label app=web\n block",
    "type": "filter type MX namespace shop\n allow type A namespace lab\n block type A\n",
    "deny": "block namespace lab",
    "order": "block namespace shop label app=db\n allow namespace shop\n filter",
}
COREFILE = "".join(f"{zone}.test {{\n acl {{\n {rules}\n }}\n}}\n" for zone, rules in RULES.items())


def corefile(rules: str, pods: str = "verified") -> str:
    return f".:{{port}} {{\n bind 127.0.0.1 ::1\n{rules} kubernetes cluster.local {{\n  manifests {{dir}}/pods.yaml\n  pods {pods}\n }}\n whoami\n}}\n"


#: Policies in front of others, for none of the clients: with many of them a table has several words.
FILLERS = {few: " acl {\n" + "".join(f"  block type A TXT net 203.0.113.{i}\n" for i in range(few)) + " }\n" for few in (1, 150)}


def write(folder: Path, pods: list[dict[str, Any]]) -> None:
    new = folder / ".pods.yaml"
    new.write_text(yaml.safe_dump_all(pods))
    new.rename(folder / "pods.yaml")


@pytest.fixture(scope="module", params=FILLERS.values(), ids=[str(count) for count in FILLERS])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("acl")
    write(folder, PODS)
    with Server(folder, corefile(request.param + "".join(f" acl {zone}.test {{\n {rules}\n }}\n" for zone, rules in RULES.items()))) as running:
        yield running


WEB, DB, LAB, AGENT, BOTH, PLAIN, NOBODY = (f"127.0.0.{last}" for last in (10, 11, 12, 20, 21, 22, 99))


@pytest.mark.parametrize(
    ("zone", "rdtype", "passing", "other"),
    [
        ("namespace", "A", (WEB, DB), BLOCKED),
        ("label", "A", (WEB, LAB, BOTH), BLOCKED),
        ("both", "A", (WEB,), BLOCKED),
        ("two", "A", (WEB,), BLOCKED),
        ("key", "A", (DB, LAB), BLOCKED),
        ("net", "A", (WEB,), BLOCKED),
        ("type", "A", (LAB,), BLOCKED),
        ("type", "TXT", (WEB, DB, LAB, AGENT, BOTH, PLAIN, NOBODY), BLOCKED),
        ("deny", "A", (WEB, DB, AGENT, BOTH, PLAIN, NOBODY), BLOCKED),
        ("order", "A", (WEB,), FILTERED),
    ],
)
def test_decisions(server: Server, zone: str, rdtype: str, passing: tuple[str, ...], other: str) -> None:
    exceptions = {("net", LAB): FILTERED, ("net", BOTH): FILTERED, ("order", DB): BLOCKED}
    for client in (WEB, DB, LAB, AGENT, BOTH, PLAIN, NOBODY):
        wanted = PASSES if client in passing else exceptions.get((zone, client), other)
        assert outcome(server.query(f"www.{zone}.test.", rdtype, source=client)) == wanted, client
    assert outcome(server.query(f"www.{zone}.test.", rdtype, source=WEB, tcp=True)) == (PASSES if WEB in passing else other)


def test_types_and_addresses_count_too(server: Server) -> None:
    assert outcome(server.query("www.type.test.", "MX", source=WEB)) == FILTERED
    assert outcome(server.query("www.type.test.", "MX", source=LAB)) == PASSES
    assert outcome(server.query("www.both.test.", "A", host="::1")) == PASSES
    assert outcome(server.query("www.two.test.", "A", host="::1")) == BLOCKED


def test_changes_of_pods_are_followed(serve: Callable[..., Server]) -> None:
    rules = " acl {\n  allow namespace shop label app=web\n  block\n }\n"
    server = serve(corefile(rules), prepare=lambda folder: write(folder, PODS[:2]))
    assert outcome(server.query("a.test.", source=DB)) == BLOCKED
    assert outcome(server.query("a.test.", source=NOBODY)) == BLOCKED
    write(server.folder, [PODS[1], pod("shop/db", DB, {"app": "web"}), pod("shop/more", NOBODY, {"app": "web"})][1:])
    for client in (DB, NOBODY):
        until(lambda client=client: outcome(server.query("a.test.", source=client)) == PASSES)
    assert outcome(server.query("a.test.", source=WEB)) == BLOCKED


def test_labels_beyond_the_limit_give_no_rights(serve: Callable[..., Server]) -> None:
    """The pod is known by its namespace, and no label of it is: not even those that it had before."""
    rules = " acl label.test {\n  allow label app=web\n  block\n }\n acl space.test {\n  allow namespace lab\n  block\n }\n"
    server = serve(corefile(rules), prepare=lambda folder: write(folder, [pod("shop/web", WEB, {"app": "web"})]))
    assert outcome(server.query("label.test.", source=WEB)) == PASSES
    # Its address passes to a pod with more labels than are kept.
    write(server.folder, [pod("lab/new", WEB, {f"l{number}": "x" for number in range(600)} | {"app": "web"})])
    until(lambda: outcome(server.query("space.test.", source=WEB)) == PASSES)
    assert outcome(server.query("label.test.", source=WEB)) == BLOCKED
    server.wait_log("pod lab/new: skips 601 labels")


def test_before_pods_are_known_nobody_is_one(serve: Callable[..., Server]) -> None:
    server = serve(corefile(" acl {\n  block namespace shop\n  allow namespace lab\n  filter\n }\n"), prepare=lambda folder: write(folder, []))
    assert outcome(server.query("a.test.", source=WEB)) == FILTERED
    write(server.folder, PODS)
    until(lambda: outcome(server.query("a.test.", source=WEB)) == BLOCKED)
    until(lambda: outcome(server.query("a.test.", source=LAB)) == PASSES)


ALONE = ".:{port} {\n whoami\n acl {\n  block type TXT\n  allow namespace shop\n  block\n }\n}\n"
NEEDED = "client, namespace, label and 'target own' need a plugin in the server block that knows which pod asks: kubernetes with 'pods verified'"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (ALONE, 5),
        (corefile(" acl {\n  block label a=b\n }\n", "insecure"), 4),
        (corefile(" acl {\n  block label a=b\n }\n", "disabled"), 4),
        # The pods of another block are none of this one's.
        (ALONE + corefile("").replace(".:", "z.test:"), 5),
    ],
)
def test_pods_must_be_known(serve: Callable[..., Server], text: str, line: int) -> None:
    server = serve(text, wait=False, prepare=lambda folder: write(folder, PODS))
    assert server.exit_status() == 1
    assert f"plugin/acl: {server.folder}/Corefile:{line} - Error during parsing: {NEEDED}" in server.log()


def test_checked_and_explained(serve: Callable[..., Server], tmp_path: Path) -> None:
    rules = " acl {\n  allow namespace shop\n  block\n }\n"
    write(tmp_path, PODS)
    path = tmp_path / "Corefile"
    refused = f"{path}:4: error: plugin/acl: {NEEDED}\n    hint: add 'pods verified'"
    for pods, status, said in (("insecure", 1, refused), ("verified", 0, "OK (0 errors, 0 warnings)")):
        path.write_text(corefile(rules, pods).replace("{port}", "1053").replace("{dir}", str(tmp_path)))
        done = subprocess.run([*command(), "check", str(path)], capture_output=True, text=True, timeout=LIMIT)
        assert (done.returncode, said in done.stdout) == (status, True), done.stdout
    # Outside of a cluster that is the only thing to be said.
    path.write_text(". {\n acl {\n  block namespace a\n }\n kubernetes {\n  pods verified\n }\n}\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")}
    done = subprocess.run([*command(), "check", str(path)], capture_output=True, text=True, timeout=LIMIT, env=environment)
    assert (done.returncode, "(0 errors, 1 warnings)" in done.stdout) == (0, True), done.stdout
    # The command waits until the pods are known.
    waits = corefile(rules).replace("pods verified", f"pods verified\n  startup_timeout {LIMIT:.0f}s")
    path.write_text(waits.replace("{port}", "1053").replace("{dir}", str(tmp_path)))
    for client, said in ((WEB, "reply NODATA"), (LAB, "reply REFUSED")):
        words = ["explain", "a.test", "A", "-client", client, "-conf", str(path)]
        done = subprocess.run([*command(), *words], capture_output=True, text=True, timeout=LIMIT)
        assert f"a.test. A from {client}: {said}" in done.stdout


def test_labels_are_bounded(serve: Callable[..., Server]) -> None:
    many = " ".join(f"k{number}=v" for number in range(33))
    server = serve(corefile(f" acl {{\n  block label {many}\n }}\n"), wait=False, prepare=lambda folder: write(folder, PODS))
    assert server.exit_status() == 1
    assert "Corefile:4 - Error during parsing: the rules of a server block look at 33 different labels; 32 at most" in server.log()


def test_as_many_labels_as_there_may_be(serve: Callable[..., Server]) -> None:
    wide = pod("a/b", WEB, {f"k{number}": "v" * 63 for number in range(32)})
    values = " ".join(f"label k{number}={'v' * 63}" for number in range(32))
    server = serve(corefile(f" acl {{\n  block {values}\n }}\n"), prepare=lambda folder: write(folder, [wide]))
    assert outcome(server.query("a.test.", source=WEB)) == BLOCKED
    assert outcome(server.query("a.test.", source=DB)) == PASSES
