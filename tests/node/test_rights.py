"""The containers of the DaemonSet have the rights that they need, and the server, which parses what pods send, has next to none."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from fastdns.node.flags import Flags
from fastdns.node.rights import User, parse_user
from tests.node.confined import INSIDE, confine, container
from tests.node.nodes import LOCAL, METRICS, Node, expected
from tests.node.pods import nothing_is_left
from tests.waiting import LIMIT, REPLY, until

#: Of NET_BIND_SERVICE, as /proc shows it.
BIND = 1 << 10
#: The container's volumes that it writes.
WRITABLE = ["corefile", "handover", "tmp", "run"]


def start(node: Node) -> subprocess.Popen[bytes]:
    """The first container, with the manifest's flags where they say nothing of the node."""
    given = container("node-cache")
    node.folder.chmod(0o755)
    for name in WRITABLE:
        (node.folder / name).mkdir()
        (node.folder / name).chmod(0o777 if name != "handover" else 0o755)
    user = given["args"][given["args"].index("-user") + 1]
    command = [sys.executable, "-m", "fastdns.node", "-localip", ",".join(LOCAL), "-upstreamsvc", "kube-dns-upstream", "-workers", "1", "-user", user]
    command += ["-conf", f"{INSIDE}/corefile/Corefile", "-pidfile", f"{INSIDE}/tmp/node-cache.pid", "-handover", f"{INSIDE}/handover"]
    command += ["-basecorefile", f"{INSIDE}/base/Corefile.base", "-kubednscm", f"{INSIDE}/kube-dns", "-metrics-listen-address", METRICS, "-reloadwithsignal"]
    confined = confine(command, given["securityContext"], node.folder, WRITABLE)
    environment = {"TMPDIR": f"{INSIDE}/tmp", "XDG_RUNTIME_DIR": f"{INSIDE}/run", "KUBE_DNS_UPSTREAM_SERVICE_HOST": "10.96.0.99"}
    return node.start(confined, node.output, **environment)


def status(pid: int) -> dict[str, str]:
    """The fields of a process's /proc/PID/status."""
    return dict(re.findall(r"^(\w+):[ \t]*(.*?) *$", Path(f"/proc/{pid}/status").read_text(), re.M))


def test_the_daemonset_s_rights_suffice(node: Node) -> None:
    """Interface, rules, port 53, a new Corefile, a crash, the end: all that the container does."""
    space, pidfile = node.space, node.folder / "tmp" / "node-cache.pid"
    process = start(node)
    until(lambda: space.ask("some.example", LOCAL[0]) == ["192.0.2.200"], "an answer")
    until(lambda: space.rules() == expected(LOCAL), "all rules")
    assert space.do(lambda: urllib.request.urlopen("http://169.254.20.10:8080/health", timeout=REPLY).read()) == b"OK"
    server = int(pidfile.read_text())
    fields = status(server)
    assert set(fields["Uid"].split() + fields["Gid"].split()) == {"65532"}
    assert fields["Groups"] == ""
    assert [int(fields[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [BIND] * 4
    assert fields["NoNewPrivs"] == "1"
    until(lambda: (node.folder / "run" / "fastdns" / str(server)).is_socket(), "the control socket")
    assert (node.folder / "corefile").stat().st_mode & 0o777 == 0o755, "the server could replace its Corefile"

    node.template.write_text(node.template.read_text().replace("192.0.2.200", "192.0.2.201"))
    until(lambda: space.ask("some.example", LOCAL[0]) == ["192.0.2.201"], "the new Corefile")
    os.kill(server, signal.SIGKILL)
    until(lambda: pidfile.exists() and int(pidfile.read_text() or server) != server, "the next server")
    until(lambda: space.ask("some.example", LOCAL[1]) == ["192.0.2.201"], "an answer of the next server")
    process.terminate()
    assert process.wait(LIMIT) == 0, node.log()
    assert nothing_is_left(node)
    assert not re.search(r"not permitted|denied|Read-only", node.log()), node.log()


def test_the_server_ends_with_its_parent(node: Node) -> None:
    """Another user's, too: the signal that the kernel sends outlasts the change."""
    process = start(node)
    pidfile = node.folder / "tmp" / "node-cache.pid"
    until(pidfile.exists, "the server")
    server = int(until(pidfile.read_text, "its process id"))
    process.kill()
    until(lambda: not Path(f"/proc/{server}").exists(), "the end of the server")


@pytest.mark.parametrize(("text", "user"), [("", None), ("65532", User(65532, 65532)), ("1:2", User(1, 2)), ("0:0", User(0, 0))])
def test_users(text: str, user: User | None) -> None:
    assert parse_user(text) == user


@pytest.mark.parametrize("text", ["nobody", "-1", "1:", ":1", "1:2:3", "4294967295", "٣", "1 "])
def test_what_is_no_user(text: str) -> None:
    flags = Flags()
    flags.localip, flags.user = "169.254.20.10", text
    with pytest.raises(ValueError, match="^invalid user specified - "):
        flags.validate()
