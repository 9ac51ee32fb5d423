"""Zones of a Python plugin's objects, through a socket: queries never meet its Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.conformance.kube_api import KubeAPI
from tests.server import Server, free_port
from tests.waiting import until

PLUGIN = """
from pathlib import Path
from fastdns.plugins.kubernetes.objects import ApiServerOptions, ObjectKind, ObjectZones

MACHINE = ObjectKind("machines.example.net", ["v1"], "machines", {"addresses": ("spec.addresses", list[str])})

class Machines(ObjectZones):
    def records(self, found):
        if found.name == "slow":
            Path("begun").touch()
            sum(range(150_000_000))         # in C: the GIL is held all the time
            Path("ended").touch()
        return [(found.name, "A " + address) for address in found["addresses"]]

def setup(controller):
    controller.next()
    options = ApiServerOptions(endpoint=controller.remaining_args()[0])
    return Machines("machines", ["machines.test."], [MACHINE], options).serve(controller)
"""


def machine(name: str, address: str) -> dict[str, object]:
    return {"apiVersion": "machines.example.net/v1", "kind": "Machine", "metadata": {"namespace": "lab", "name": name}, "spec": {"addresses": [address]}}


def test_answers_while_the_plugin_holds_the_gil(serve: Callable[..., Server]) -> None:
    api = KubeAPI(free_port(), [machine("one", "192.0.2.1")])
    try:
        corefile = f".:{{port}} {{\n bind 127.0.0.1\n plugin machines.py {api.url}\n}}\n"
        server = serve(corefile, prepare=lambda folder: (folder / "machines.py").write_text(PLUGIN))
        server.until("one.machines.test.", "A", ["192.0.2.1"])
        begun, ended = (Path(server.folder) / name for name in ("begun", "ended"))
        api.apply(machine("slow", "192.0.2.2"))
        until(begun.exists)
        for _ in range(20):
            assert server.answers("one.machines.test.") == ["192.0.2.1"]
            assert server.answers("two.machines.test.") == ["NXDOMAIN"]
        assert not ended.exists(), "the answers came while the plugin's Python ran"
        server.until("slow.machines.test.", "A", ["192.0.2.2"])
    finally:
        api.stop()
