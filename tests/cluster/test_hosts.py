"""Hosts of namespaces: they reach each other, and nothing is left of them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cgroups import Cgroups, hierarchies
from tests.cluster.hosts import Host, Network
from tests.cluster.sysctls import NAMES, kept_sysctls
from tests.waiting import until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make namespaces")


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Host]]:
    with contextlib.ExitStack() as made:
        yield [made.enter_context(contextlib.closing(_host(name, tmp_path))) for name in ("router", "one", "two")]


def _host(name: str, folder: Path) -> Host:
    try:
        return Host(name, folder / name)
    except RuntimeError as error:
        pytest.skip(str(error))


def test_hosts_reach_each_other_and_nothing_else(hosts: list[Host]) -> None:
    router, one, two = hosts
    network = Network(router)
    network.connect(one, "192.168.66.11")
    network.connect(two, "192.168.66.12")
    network.route([one], "10.244.2.0/24", "192.168.66.12")
    two.run("ip", "addr", "add", "10.244.2.1/24", "dev", "lo")
    two.start("server", sys.executable, "-c", "import socket; s = socket.create_server(('', 7)); c = s.accept()[0]; c.sendall(b'two'); c.recv(1)")
    ask = "import socket; print(socket.create_connection(('10.244.2.1', 7), 5).recv(9).decode())"
    assert until(lambda: one.run(sys.executable, "-c", ask, check=False).strip(), "an answer") == "two"
    assert one.run("cat", "/proc/sys/kernel/hostname").strip() == "one"
    assert one.run("sh", "-c", "ip -o link | wc -l").strip() == "2"


def test_a_host_that_is_cut_off_is_as_before_when_it_is_joined(hosts: list[Host]) -> None:
    router, one, two = hosts
    network = Network(router)
    for host, address in ((one, "192.168.66.11"), (two, "192.168.66.12")):
        network.connect(host, address)
    network.route([one], "10.244.2.0/24", "192.168.66.12")
    network.route([two], "10.244.1.0/24", "192.168.66.11")
    two.run("ip", "addr", "add", "10.244.2.1/24", "dev", "lo")

    def reached() -> bool:
        ask = "import socket; s = socket.socket(); s.settimeout(1); print(s.connect_ex(('10.244.2.1', 7)))"
        # 111 is ECONNREFUSED: nothing listens there, but it is there.
        return one.run(sys.executable, "-c", ask).strip() == "111"

    until(reached, "the way to the other host")
    network.cut(two)
    assert not reached()
    network.join(two)
    until(reached, "the way back to the other host")
    assert "10.244.1.0/24 via 192.168.66.11" in two.run("ip", "route")


def test_what_a_host_writes_outside_its_folder_is_gone_with_it(hosts: list[Host]) -> None:
    hosts[0].run("sh", "-c", "echo x > /etc/fastdns-host; echo x > /run/fastdns-host; mkdir -p /var/lib/fastdns-host")
    assert not [path for path in ("/etc/fastdns-host", "/run/fastdns-host", "/var/lib/fastdns-host") if Path(path).exists()]


def test_programs_start_and_stop(hosts: list[Host]) -> None:
    host = hosts[0]
    host.start("one", "sleep", "1000")
    host.start("other", "sh", "-c", "exit 3")
    until(lambda: "sleep\x001000" in host.run("sh", "-c", "cat /proc/[0-9]*/cmdline", check=False), "the one's start")
    until(lambda: host.ended() == ["other"], "the other's end")
    host.stop("one")
    assert "sleep\x001000" not in host.run("sh", "-c", "cat /proc/[0-9]*/cmdline", check=False)


def test_all_programs_end_with_their_host(tmp_path: Path) -> None:
    host = _host("short", tmp_path)
    host.start("daemon", "sh", "-c", "setsid sleep 1000 & setsid sleep 1000 & wait")
    children = Path("/proc", str(host.first), "root", "proc")
    until(lambda: len([path for path in children.iterdir() if path.name.isdigit()]) >= 4, "the daemons")
    os.kill(host.process.pid, signal.SIGKILL)
    host.close()
    assert not Path(f"/proc/{host.first}").exists()


def test_cgroups_are_removed() -> None:
    groups = Cgroups(f"fastdns-test-{os.getpid()}")
    roots = [*hierarchies("cgroup"), *hierarchies("cgroup2")]
    if not roots or not os.access(roots[0], os.W_OK):
        pytest.skip("needs control groups")
    assert groups.add("node1") == f"/{groups.name}/node1"
    assert any((root / groups.name / "node1").is_dir() for root in roots)
    groups.remove()
    assert not any((root / groups.name).exists() for root in roots)


def test_sysctls_are_as_before_when_the_last_run_has_ended(tmp_path: Path) -> None:
    record, setting = tmp_path / "record", tmp_path / NAMES[0]
    setting.parent.mkdir()
    setting.write_text("0")
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    first.enter_context(kept_sysctls(record, tmp_path))
    setting.write_text("1")
    second.enter_context(kept_sysctls(record, tmp_path))
    first.close()
    assert setting.read_text() == "1"
    second.close()
    assert setting.read_text() == "0"


def test_sysctls_are_restored_after_a_run_that_was_killed(tmp_path: Path) -> None:
    record, setting = tmp_path / "record", tmp_path / NAMES[0]
    setting.parent.mkdir()
    setting.write_text("1")
    record.write_text(f'{{"{NAMES[0]}": "0"}}')
    with kept_sysctls(record, tmp_path):
        pass
    assert setting.read_text() == "0"
