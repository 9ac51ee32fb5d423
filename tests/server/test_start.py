"""What a start imports before it serves: a module that nothing needs yet costs each start its time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.plugins.kubernetes.test_replica import Files, centre_text, node_text
from tests.server import Server
from tests.waiting import until

Serve = Callable[..., Server]

#: The command, up to when the server serves: it prints what was imported, and ends.
UNTIL_IT_SERVES = """
import os, sys
# The finder of an editable installation has imported it.
for name in ("pathlib", "urllib.parse", "ipaddress"):
    sys.modules.pop(name, None)
from fastdns import control
from fastdns.server import cli

def begin():
    sys.stdout.write("imported: " + " ".join(sys.modules) + "\\n")
    sys.stdout.flush()
    os._exit(0)

control.begin = begin
cli.main()
"""
#: For commands, for the loop of the control plane and for connections to API servers; of the last two a replica has all it needs on disk.
OF_COMMANDS = {"argparse", "json", "tempfile", "shutil", "hashlib", "secrets", "hmac", "email", "http", "dns", "uvloop", "fastdns.server.commands"}
OF_PATHS = {"pathlib", "urllib.parse", "ipaddress"}
OF_THE_LOOP = {"asyncio", "ssl", "logging", "concurrent.futures", "inspect", "dataclasses", "subprocess", "traceback"}
OF_API_SERVERS = {f"fastdns.plugins.kubernetes.{name}" for name in ("watch.client", "watch.connection", "watch.reflector", "decode.stream")}

KUBEADM = """
.:{port} {
    bind 127.0.0.1
    errors
    health 127.0.0.1:{port2} {
        lameduck 5s
    }
    ready 127.0.0.1:{port3}
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        endpoint http://127.0.0.1:1
        startup_timeout 0s
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    prometheus 127.0.0.1:{port4}
    forward . 127.0.0.9 {
        max_concurrent 1000
    }
    cache 30 {
        disable success cluster.local
        disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
"""


def imported(corefile: Path) -> set[str]:
    """By a start with this Corefile."""
    done = subprocess.run([sys.executable, "-c", UNTIL_IT_SERVES, "-conf", str(corefile)], cwd=corefile.parent, capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("imported: "))
    return set(line.split()[1:])


def test_the_usual_corefile_imports_nothing_of_commands(serve: Serve) -> None:
    server = serve(KUBEADM)
    server.stop()
    assert not imported(server.corefile) & OF_COMMANDS


def test_a_replica_answers_from_disk_without_the_control_planes_loop(serve: Serve, tmp_path: Path) -> None:
    centre = serve(centre_text(), prepare=lambda folder: Files(folder) and None)
    node = serve(node_text(f"127.0.0.1:{centre.port}", secondary=f"store {tmp_path}"))
    node.until("web.shop.svc.cluster.local.", "A", ["10.96.0.1"])
    until(lambda: any(path.name.startswith("db.") for path in tmp_path.iterdir()), "the zone on disk")
    centre.stop()
    node.stop()
    assert not imported(node.corefile) & (OF_COMMANDS | OF_PATHS | OF_THE_LOOP | OF_API_SERVERS)
