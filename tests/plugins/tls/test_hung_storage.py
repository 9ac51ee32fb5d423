"""tls by ACME whose storage hangs: FIFOs in place of its files hold whoever opens them, as a file server that is away does."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

from fastdns.plugins.tls.options import AcmeOptions
from fastdns.plugins.tls.storage import Storage
from tests.certificates import common_name, write_certificate, write_certificates
from tests.server import Server, free_port
from tests.waiting import REPLY, until

CA = "http://127.0.0.1:1/"
#: More than the shared pool of the control plane has threads, and more than those that wait for CAs.
DOMAINS = [f"hung{number}.test" for number in range(6)]
HANGS = r"^\[ERROR\] plugin/tls: The storage \S+/hung has not answered for 5s; "


def certificate(folder: Path, domain: str) -> Path:
    return Path(Storage(AcmeOptions((domain,), "", CA, str(folder), "", "")).certificate)


def store(folder: Path, domain: str, name: str) -> None:
    """A certificate that need not be renewed, in place of whatever is there."""
    folder.mkdir(exist_ok=True)
    work = folder.parent / "work"
    if not work.exists():
        work.mkdir()
        write_certificates(work)
    write_certificate(work, name, name)
    beside = work / "both"
    beside.write_bytes((work / f"{name}.key").read_bytes() + (work / f"{name}.pem").read_bytes())
    beside.replace(certificate(folder, domain))


def block(folder: Path, domain: str, port: str) -> str:
    return f"tls://.:{port} {{\n tls {{\n acme {domain}\n ca {CA}\n storage {folder}\n }}\n whoami\n}}\n"


def corefile(tmp_path: Path) -> str:
    """Of the storage that hangs the first block is on ``port2``; the storage that does not is on ``port``."""
    ports = ["{port2}", *(str(free_port()) for _ in DOMAINS[1:])]
    text = block(tmp_path / "good", "good.test", "{port}") + "".join(map(block, [tmp_path / "hung"] * len(DOMAINS), DOMAINS, ports))
    return text + f".:{{port4}} {{\n hosts {tmp_path}/hosts {{\n reload 1s\n }}\n prometheus 127.0.0.1:{{port3}}\n}}\n"


def prepare(tmp_path: Path) -> str:
    store(tmp_path / "good", "good.test", "good")
    for domain in DOMAINS:
        store(tmp_path / "hung", domain, "former")
    (tmp_path / "hosts").write_text("192.0.2.1 a.test\n")
    return corefile(tmp_path)


def hang(folder: Path) -> list[Path]:
    """Whoever reads certificates and challenges waits. The FIFOs have second names, by which they are found again."""
    pipes = []
    for path in (folder / "challenges.json", *(certificate(folder, domain) for domain in DOMAINS)):
        pipe = folder.parent / f"{path.name}.pipe"
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        beside = folder.parent / "beside"
        os.link(pipe, beside)
        beside.replace(path)
        pipes.append(pipe)
    return pipes


def answer(folder: Path, pipes: list[Path], name: str) -> None:
    """The files are back, and whoever waits reads the end of a file."""
    (folder / "challenges.json").unlink()
    for domain in DOMAINS:
        store(folder, domain, name)
    for pipe in pipes:
        os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))


def name(server: Server, port: str) -> str:
    """Of the certificate that the server shows; "": there is none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection(("127.0.0.1", server.ports[port]), REPLY) as plain, context.wrap_socket(plain) as connection:
            return common_name(connection.getpeercert(True))
    except ssl.SSLError:
        return ""


def held(server: Server) -> int:
    """Threads that wait for the other side of a FIFO."""
    assert server.process is not None
    count = 0
    for task in Path(f"/proc/{server.process.pid}/task").iterdir():
        count += "fifo" in (found := (task / "wchan").read_text()) or "wait_for_partner" in found
    return count


def test_a_storage_that_hangs(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Everything else goes on, a reload too, and the storage's certificates stay."""
    text = prepare(tmp_path)
    server = serve(text)
    assert (name(server, "port"), name(server, "port2")) == ("good", "former")
    pipes = hang(tmp_path / "hung")
    server.wait_log(HANGS)
    gauge = f'fastdns_tls_acme_storage_hung{{storage="{tmp_path}/hung"}}'
    assert server.metric(server.ports["port3"], gauge) == 1
    store(tmp_path / "good", "good.test", "renewed")
    until(lambda: name(server, "port") == "renewed", "the other storage's certificate")
    (tmp_path / "hosts").write_text("192.0.2.2 a.test\n")
    server.until("a.test", "A", ["192.0.2.2"], port=server.ports["port4"])
    assert held(server) == 1
    server.reload(text + "# changed\n")
    assert name(server, "port2") == "former"
    store(tmp_path / "good", "good.test", "again")
    until(lambda: name(server, "port") == "again", "the other storage's certificate")
    assert server.log().count("has not answered for") == 1
    answer(tmp_path / "hung", pipes, "later")
    server.wait_log(r"^\[INFO\] plugin/tls: The storage \S+/hung answers again, after \d+s$")
    until(lambda: name(server, "port2") == "later", "the certificate of the storage that answers again")
    assert server.metric(server.ports["port3"], gauge) == 0


def test_it_ends_while_the_storage_hangs(serve: Callable[..., Server], tmp_path: Path) -> None:
    server = serve(prepare(tmp_path))
    hang(tmp_path / "hung")
    server.wait_log(HANGS)
    assert server.process is not None
    began = time.monotonic()
    server.signal(signal.SIGTERM)
    server.process.wait(20)
    assert time.monotonic() - began < 15


def test_it_starts_while_the_storage_hangs(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Handshakes fail until the storage answers; everything else is served."""
    text = prepare(tmp_path)
    pipes = hang(tmp_path / "hung")
    server = serve(text)
    assert (name(server, "port"), name(server, "port2")) == ("good", "")
    assert server.log().count("has not answered for") == 1
    answer(tmp_path / "hung", pipes, "later")
    until(lambda: name(server, "port2") == "later", "the certificate")
