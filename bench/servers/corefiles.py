"""The servers that read a Corefile."""

from __future__ import annotations

import subprocess
import sys
from functools import cached_property
from pathlib import Path

from fastdns.bench.servers.adapter import Adapter, Listen, Work
from fastdns.bench.servers.certificate import write_certificate
from fastdns.bench.servers.ports import free_port

SECONDS_TO_LIST = 60
#: Transports over TLS and QUIC, and how Corefiles call them.
SECURE = {"dot": "tls", "doh": "https", "doh1": "https", "doq": "quic", "doh3": "https3", "grpc": "grpc"}


class Corefile(Adapter):
    """A server that reads a Corefile and lists its plugins with `-plugins`."""

    transports = frozenset(["udp", "tcp", *SECURE])

    @cached_property
    def plugins(self) -> frozenset[str]:
        """The directives that it has; CoreDNS puts `dns.` before them."""
        listed = subprocess.run([self.executable(), "-plugins"], capture_output=True, text=True, timeout=SECONDS_TO_LIST, check=True)
        return frozenset(word.removeprefix("dns.") for word in listed.stdout.split())

    def refuses(self, work: Work) -> str:
        absent = [name for name in work.needs if name not in self.plugins]
        return f"has no plugin {' or '.join(absent)} built in ({self.name} -plugins lists those that are)" if absent else ""

    def write(self, work: Work, listen: Listen, folder: Path) -> Path:
        for name, text in work.files.items():
            (folder / name).write_text(text)
        text = work.corefile
        places = {
            "bind": "" if listen.wildcard else "bind 127.0.0.1",
            "port": str(listen.port),
            "http": str(free_port()),
            "dir": str(folder),
        }
        if "{secure}" in text:
            certificate, key = folder / "certificate.pem", folder / "key.pem"
            write_certificate(certificate, key)
            places |= {"secure": str(listen.secure), "certificate": str(certificate), "key": str(key)}
        if work.zone and "{zone}" in text:
            places["zone"] = str(work.zone.path)
        for place, value in places.items():
            text = text.replace("{" + place + "}", value)
        path = folder / "Corefile"
        path.write_text(text)
        return path


class Fastdns(Corefile):
    """This project's server: the one installed beside this interpreter, else the one on the search path."""

    name = "fastdns"
    program = "fastdns"

    def executable(self) -> str:
        beside = Path(sys.executable).with_name("fastdns")
        return str(beside) if not self.path and beside.is_file() else super().executable()

    def command(self, work: Work, listen: Listen, folder: Path) -> list[str]:
        return [self.executable(), "-conf", str(self.write(work, listen, folder)), "-workers", str(listen.workers)]


class CoreDNS(Corefile):
    """CoreDNS. It takes as many CPUs as its affinity gives."""

    name = "coredns"
    program = "coredns"

    def refuses(self, work: Work) -> str:
        return Adapter.refuses(self, work) or super().refuses(work)

    def command(self, work: Work, listen: Listen, folder: Path) -> list[str]:
        return [self.executable(), "-conf", str(self.write(work, listen, folder))]
