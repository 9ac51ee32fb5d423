"""nghttpd of nghttp2: the least that an answer over HTTP/2 and TLS costs."""

from __future__ import annotations

from pathlib import Path

from fastdns.bench.servers.adapter import Adapter, Listen, Work
from fastdns.bench.servers.certificate import write_certificate

#: Octets of an answer to a short question.
ANSWER = 88
PATH = "dns-query"


class Nghttpd(Adapter):
    """Answers each request with one fixed file, whatever its method and body are."""

    name = "nghttpd"
    program = "nghttpd"
    transports = frozenset(["doh"])
    reference = True
    speaks_dns = False

    def missing(self) -> str:
        why = super().missing()
        return why if self.path or not why else f"{why} (Debian's package nghttp2-server)"

    def refuses(self, work: Work) -> str:
        return "" if "https://" in work.corefile else "answers over HTTP/2 only"

    def command(self, work: Work, listen: Listen, folder: Path) -> list[str]:
        certificate, key, files = folder / "certificate.pem", folder / "key.pem", folder / "files"
        write_certificate(certificate, key)
        files.mkdir()
        (files / PATH).write_bytes(bytes(ANSWER))
        return [self.executable(), "-a", listen.address, "-d", str(files), "-n", str(listen.workers), str(listen.secure), str(key), str(certificate)]
