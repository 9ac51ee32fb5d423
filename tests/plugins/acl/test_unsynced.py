"""acl: what rules by namespace, label and target do while the cluster's state does not count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from fastdns.corefile import CorefileError
from fastdns.plugins.acl.rules import Unsynced, parse
from fastdns.setup import Controller
from tests.plugins.acl.test_pods import FILLERS, pod
from tests.plugins.acl.test_tenants import outcome, service, thing
from tests.server import Server
from tests.waiting import until

POD, OTHER = "127.0.0.10", "127.0.0.99"
OBJECTS = [thing("Namespace", "shop"), pod("shop/web", POD, {"app": "web"}), service("shop/db", "10.96.0.1")]

COREFILE = """
cluster.local:{port} in-addr.arpa:{port} {
FILLER
    acl cluster.local in-addr.arpa {
RULES
        unsynced UNSYNCED
    }
    kubernetes cluster.local in-addr.arpa {
        manifests {dir}/../objects
        pods verified
    }
}
"""

NAME, REVERSE = ("db.shop.svc.cluster.local", "A"), ("1.0.96.10.in-addr.arpa", "PTR")

#: Rules, the client, its question, the outcome while all is well, and while the state does not count.
CASES = {
    "allow namespace": ("allow namespace shop\nblock", POD, NAME, "NOERROR", "REFUSED"),
    "allow label": ("allow label app=web\nblock", POD, NAME, "NOERROR", "REFUSED"),
    "allow two labels": ("allow label app=web label app=web app=x\nblock", POD, NAME, "NOERROR", "REFUSED"),
    "allow client": ("allow client unknown\nblock", OTHER, NAME, "NOERROR", "REFUSED"),
    "allow target own": ("allow target own\nblock", POD, NAME, "NOERROR", "REFUSED"),
    "allow target": ("allow target shop\nblock", POD, NAME, "NOERROR", "NOERROR"),
    "allow target of an address": ("allow target shop\nblock", POD, REVERSE, "NOERROR", "REFUSED"),
    "block namespace": ("block namespace evil", OTHER, NAME, "NOERROR", "REFUSED"),
    "block label": ("block label app=x label app=y", POD, NAME, "NOERROR", "REFUSED"),
    "block target own": ("block target own", OTHER, NAME, "NOERROR", "REFUSED"),
    "block target": ("block target lab", OTHER, NAME, "NOERROR", "NOERROR"),
    "block target of an address": ("block target lab", OTHER, REVERSE, "NOERROR", "REFUSED"),
    "audit": ("audit block namespace evil", OTHER, NAME, "NOERROR", "NOERROR"),
    "net": ("allow net 127.0.0.10\nblock", POD, NAME, "NOERROR", "NOERROR"),
    "net and namespace": ("block net 127.0.0.99 namespace evil", POD, NAME, "NOERROR", "NOERROR"),
}


def corefile(names: list[str], unsynced: str, filler: str) -> str:
    """A server block for each case, on a port of its own."""
    blocks = []
    for number, name in enumerate(names):
        port = "{port}" if number == 0 else f"{{port{number + 1}}}"
        blocks.append(COREFILE.replace("RULES", CASES[name][0]).replace("FILLER", filler).replace("UNSYNCED", unsynced).replace("{port}", port))
    return "".join(blocks)


@pytest.mark.parametrize("filler", FILLERS.values(), ids=[str(count) for count in FILLERS])
@pytest.mark.parametrize(("mode", "denies"), [("deny 0s", True), ("allow", False)])
def test_rules_while_the_state_does_not_count(serve: Callable[..., Server], tmp_path: Path, mode: str, denies: bool, filler: str) -> None:
    """The manifests become unreadable, and readable again."""
    names = list(CASES)
    folder = tmp_path / "objects"
    folder.mkdir()
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(OBJECTS))
    server = serve(corefile(names, mode, filler))

    def outcomes() -> dict[str, str]:
        found = {}
        for number, name in enumerate(names):
            _, source, (qname, qtype), _, _ = CASES[name]
            port = server.port if number == 0 else server.ports[f"port{number + 1}"]
            found[name] = outcome(server.query(qname, qtype, port=port, source=source)).partition(" ")[0]
        return found

    well = {name: case[3] for name, case in CASES.items()}
    assert outcomes() == well
    (folder / "broken.yaml").write_text("{")
    server.wait_log("manifests: ")
    if denies:
        until(lambda: outcomes() != well)
        until(lambda: outcomes() == {name: case[4] for name, case in CASES.items()})
    else:
        assert outcomes() == well
    (folder / "broken.yaml").unlink()
    until(lambda: outcomes() == well)


def test_the_property() -> None:
    assert parse(Controller.of("acl {\n allow\n}")).unsynced is None
    for text, wanted in (("deny", Unsynced("deny", 30.0)), ("deny 2m", Unsynced("deny", 120.0)), ("allow", Unsynced("allow", 30.0))):
        unsynced = parse(Controller.of(f"acl {{\n unsynced {text}\n}}")).unsynced
        assert unsynced is not None
        assert unsynced._replace(place=None) == wanted


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("unsynced", "Wrong argument count"),
        ("unsynced perhaps", "expect 'unsynced allow' or 'unsynced deny [AFTER]'"),
        ("unsynced allow 3s", "expect 'unsynced allow' or 'unsynced deny [AFTER]'"),
        ("unsynced deny soon", "invalid duration"),
        ("unsynced deny -1s", "negative"),
        ("unsynced deny\nunsynced deny", "unsynced is given twice"),
    ],
)
def test_errors(lines: str, message: str) -> None:
    with pytest.raises(CorefileError, match=".") as caught:
        parse(Controller.of(f"acl {{\n {lines}\n}}"))
    assert message in str(caught.value)
