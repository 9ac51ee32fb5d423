"""Hosts of a cluster: namespaces of mounts, processes, network, host name and IPC, joined by a bridge, with no way out of this machine.

The first process of a host holds its namespaces, and nothing else does: when it is killed, the kernel kills every other process of the host and removes its
mounts and interfaces.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.waiting import until

__all__ = ["Host", "Network", "set_address"]

PR_SET_PDEATHSIG = 1
#: Seconds for a program to end by itself after SIGTERM.
GRACE = 10.0
#: What the programs of a node write outside the folders that their options name lands in memory: the folders of this machine only lie below.
OVERLAID = ("/etc", "/var", "/usr/libexec")
_libc = ctypes.CDLL(None, use_errno=True)


def _end_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Host:
    """One host. ``folder`` is for its files and the logs of its programs."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.programs: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir(parents=True)
        # SIGCHLD is ignored, which exec leaves so: the kernel then reaps orphans of the first process.
        lines = [
            "set -e; trap '' CHLD",
            f"echo {shlex.quote(name)} > /proc/sys/kernel/hostname",
            "mount -t tmpfs tmpfs /run",
            *(
                f"mkdir -p /run/overlays{path}/upper /run/overlays{path}/work {path}; "
                f"mount -t overlay -o lowerdir={path},upperdir=/run/overlays{path}/upper,workdir=/run/overlays{path}/work overlay {path}"
                for path in OVERLAID
            ),
            # As on a node: what containers mount on purpose is seen outside them.
            "mount --make-rshared /",
            "ip link set lo up; echo 1 > /proc/sys/net/ipv4/ip_forward",
            "echo ready; exec sleep infinity",
        ]
        words = ["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc", "sh", "-c", "\n".join(lines)]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd="/", start_new_session=True, preexec_fn=_end_with_parent)
        assert self.process.stdout is not None
        if self.process.stdout.readline() != b"ready\n":
            with self.process:  # closes its output and waits for its end
                self.process.kill()
            raise RuntimeError(f"the namespaces of {name} could not be made, which needs root with CAP_SYS_ADMIN")
        self.first = int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])

    def entered(self, *command: str) -> list[str]:
        """The command line that runs a command there."""
        # --root: a namespace of mounts alone has the machine's root, also where this process has another one (chroot).
        return ["nsenter", f"--target={self.first}", "--root", "--mount", "--pid", "--net", "--uts", "--ipc", "--", *command]

    def run(self, *command: str, text: str | None = None, check: bool = True, limit: float = 120) -> str:
        """Run a command to its end. Its output; raises RuntimeError with what it said where it fails."""
        done = subprocess.run(self.entered(*command), input=text or "", capture_output=True, text=True, timeout=limit, cwd="/")
        if check and done.returncode:
            raise RuntimeError(f"{self.name}: {shlex.join(command)} ended with status {done.returncode}: {(done.stderr or done.stdout).strip()[-2000:]}")
        return done.stdout

    def start(self, name: str, *command: str) -> None:
        """Start a program that stays; its output goes to NAME.log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            # Ctrl-C is for the process that takes the host down, not for what runs there.
            words = self.entered(*command)
            self.programs[name] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True)

    def signal(self, name: str, number: signal.Signals) -> None:
        """To a program that was started; nsenter, which waits for it, passes none on."""
        process = self.programs[name]
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        with contextlib.suppress(OSError):
            for child in children.read_text().split():
                os.kill(int(child), number)

    def stop(self, name: str) -> None:
        self.signal(name, signal.SIGTERM)
        try:
            self.programs[name].wait(GRACE)
        except subprocess.TimeoutExpired:
            self.signal(name, signal.SIGKILL)
            self.programs[name].wait(GRACE)
        del self.programs[name]

    def ended(self) -> list[str]:
        """The programs that have ended though nobody stopped them."""
        return [name for name, process in self.programs.items() if process.poll() is not None]

    def close(self) -> None:
        """End all that runs there, and with it the host."""
        self.process.kill()
        self.process.wait()
        # The first process is killed with its parent, and the others with it; a host is gone when they are.
        until(lambda: not Path(f"/proc/{self.first}").exists(), f"the end of {self.name}", GRACE)
        for process in self.programs.values():
            process.wait(GRACE)
        if self.process.stdout is not None:
            self.process.stdout.close()


class Network:
    """A host with a bridge, to which others are connected. Addresses are of 192.168.66.0/24; the bridge has the last one."""

    ADDRESS = "192.168.66.254"

    def __init__(self, host: Host) -> None:
        self.host = host
        #: Of each host the interface of the bridge to which it is connected.
        self.ports: dict[str, str] = {}
        for command in ("ip link add br0 type bridge forward_delay 0", f"ip addr add {self.ADDRESS}/24 dev br0", "ip link set br0 up"):
            host.run(*command.split())

    def connect(self, other: Host, address: str) -> None:
        """Give a host the interface eth0 with an address, and the bridge as its router."""
        port = self.ports[other.name] = f"port{len(self.ports)}"
        _ip("link", "add", "eth0", "netns", str(other.first), "type", "veth", "peer", "name", port, "netns", str(self.host.first))
        self.host.run("ip", "link", "set", port, "master", "br0", "up")
        other.run("ip", "addr", "add", f"{address}/24", "dev", "eth0")
        other.run("ip", "link", "set", "eth0", "up")
        other.run("ip", "route", "add", "default", "via", self.ADDRESS)

    def cut(self, other: Host) -> None:
        """Nothing comes from a host or reaches it, as with its cable pulled; its routes stay."""
        self.host.run("ip", "link", "set", self.ports[other.name], "down")

    def join(self, other: Host) -> None:
        """The end of a cut."""
        self.host.run("ip", "link", "set", self.ports[other.name], "up")

    def route(self, hosts: Sequence[Host], subnet: str, via: str) -> None:
        """Have hosts, and the router itself, reach a subnet behind an address."""
        for host in (self.host, *hosts):
            host.run("ip", "route", "add", subnet, "via", via)


def set_address(host: Host, address: str) -> None:
    """Give a host that no other is connected to the interface eth0 with an address, and the default route that kubeadm wants."""
    for words in (
        "link add eth0 type veth peer name eth1",
        f"addr add {address}/24 dev eth0",
        "link set eth0 up",
        "link set eth1 up",
        "route add default dev eth0",
    ):
        host.run("ip", *words.split())


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
