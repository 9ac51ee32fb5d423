"""The sections that the server provides of itself."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable

import pytest

from fastdns import __version__
from fastdns.server import control, sections
from fastdns.server.plan import about
from tests.server import Server

COREFILE = "example.org:{port} {\n    errors\n    cache\n    whoami\n}\nexample.net:{port} {\n    hosts {\n        192.0.2.1 a.example.net\n    }\n}\n"


def section(server: Server, name: str, **request: object) -> dict[str, object]:
    found: dict[str, object] = control.ask({"sections": [name], **request}, server.pid)[name]
    return found


def test_server(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE)
    found = section(server, "server")
    assert (found["version"], found["pid"], found["listeners"]) == (__version__, server.pid, [f"dns://:{server.port}"])
    assert 0 <= time.time() - found["started"] < 300  # type: ignore[operator]
    with open(f"/proc/{server.pid}/statm") as file:
        pages = int(file.read().split()[1])
    assert found["rss"] == pytest.approx(pages * os.sysconf("SC_PAGE_SIZE"), rel=0.2)
    bounds = {bound["name"]: bound for bound in found["bounds"]}  # type: ignore[attr-defined]
    assert bounds["queries waiting"]["most"] == 4096
    _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert bounds["connections"]["most"] == pytest.approx(min(20000, descriptors // 4 * 3), abs=16)  # shared out among the workers
    assert bounds["descriptors"]["used"] == pytest.approx(len(os.listdir(f"/proc/{server.pid}/fd")), abs=3)


def test_plan(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE)
    found = section(server, "plan")
    (address,) = found["servers"]  # type: ignore[misc]
    zones = {zone["zone"]: zone for zone in address["zones"]}
    assert [(step["name"], step["answers"]) for step in zones["example.org."]["chain"]] == [("errors", False), ("cache", False), ("whoami", True)]
    assert zones["example.org."]["chain"][1]["does"] == "caches replies, positive and negative, for their TTL"
    assert zones["example.net."]["place"].endswith("Corefile:6")


def test_every_plugin_says_what_it_does() -> None:
    from fastdns.setup import registry

    missing = [name for name, folder in registry.in_tree().items() if registry.folder_of(folder) and not about(name) and name != "on"]
    assert not missing


def test_corefile_that_differs_from_its_file(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE)
    found = section(server, "corefile")
    assert (found["same"], found["difference"]) == (True, [])
    assert "192.0.2.1 a.example.net" in str(found["serving"])
    server.write(COREFILE.replace("192.0.2.1", "192.0.2.9"))
    found = section(server, "corefile")
    assert not found["same"]
    lines: list[str] = found["difference"]  # type: ignore[assignment]
    assert "-        192.0.2.1 a.example.net" in lines
    assert "+        192.0.2.9 a.example.net" in lines
    server.corefile.unlink()
    assert section(server, "corefile")["error"] == "No such file or directory"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("        secret NAME c2VjcmV0", "        secret *** ***"),
        ("    token abcdef", "    token ***"),
        ("    token {$TOKEN}", "    token {$TOKEN}"),
        ("    aws_access_key ID SECRET # mine", "    aws_access_key *** *** # ***"),
        ("    key file Kexample.org", "    key file ***"),
        ("    credentials user pass", "    credentials *** ***"),
        ("etcd example.org { password x }", "etcd example.org { password x }"),
        ("    endpoint http://user:pass@192.0.2.1:2379", "    endpoint http://***@192.0.2.1:2379"),
        ("    forward . 192.0.2.1", "    forward . 192.0.2.1"),
        ("    tsig secret x.example. AAAA", "    tsig secret *** ***"),
    ],
)
def test_secrets_are_masked(line: str, shown: str) -> None:
    assert sections._masked(line) == shown


def test_secrets_do_not_leave_the_server(serve: Callable[..., Server]) -> None:
    secret = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk="
    corefile = f"example.org:{{port}} {{\n    tsig {{\n        secret transfer.example.org. {secret}\n    }}\n    whoami\n}}\n"
    server = serve(corefile)
    server.write(corefile.replace("transfer.", "another.") + "# more\n")
    found = section(server, "corefile")
    assert not found["same"]
    assert "secret *** ***" in str(found["serving"])
    assert secret not in str(found)


def test_events(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE)
    found = section(server, "events", most=5)["events"]
    assert isinstance(found, list)
    assert len(found) <= 5
