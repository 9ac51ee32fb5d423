"""Resumption: tickets are good on every worker, after a reload and in the process that takes over, and open no other door."""

from __future__ import annotations

import signal
import socket
import ssl
from collections.abc import Callable

import dns.message
import pytest

from fastdns.tls import tickets
from tests.certificates import client_context, write_certificate, write_certificates
from tests.server import Server
from tests.tls.client import framed, is_closed, read
from tests.waiting import REPLY, until

COREFILE = "tls://.:{port} {\n tls server.pem server.key\n whoami\n}"
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


class Client:
    """Connects again with the ticket of its last connection."""

    def __init__(self, server: Server, certificate: str = "", version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        self.server = server
        self.context = client_context(server.folder, certificate)
        self.context.minimum_version = self.context.maximum_version = version
        self.session: ssl.SSLSession | None = None

    def resumes(self, port: int = 0) -> bool:
        """Asks a query on a new connection; whether that one resumed the last."""
        with socket.create_connection(("127.0.0.1", port or self.server.port), REPLY) as plain, self.context.wrap_socket(plain, session=self.session) as tls:
            tls.sendall(framed(dns.message.make_query("a.test.", "A")))
            read(tls)
            self.session = tls.session
            return bool(tls.session_reused)


@pytest.mark.parametrize("version", VERSIONS)
def test_on_every_worker_and_thread(serve: Callable[..., Server], version: ssl.TLSVersion) -> None:
    client = Client(serve(COREFILE, "-workers", "4", prepare=write_certificates), version=version)
    assert [client.resumes() for _ in range(20)] == [False] + [True] * 19


@pytest.mark.parametrize("version", VERSIONS)
def test_after_a_reload_and_a_renewal(serve: Callable[..., Server], version: ssl.TLSVersion) -> None:
    server = serve(COREFILE, prepare=write_certificates)
    client = Client(server, version=version)
    client.resumes()
    write_certificate(server.folder, "server", "renewed.test")
    server.reload(COREFILE.replace("whoami", "any\n whoami"))
    assert client.resumes()


def test_in_the_process_that_takes_over(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE, prepare=write_certificates)
    client = Client(server)
    client.resumes()
    server.signal(signal.SIGUSR2)
    server.exit_status()
    assert client.resumes()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_ticket_opens_no_other_door(serve: Callable[..., Server], version: ssl.TLSVersion) -> None:
    """What was got where nobody looks at certificates is worth nothing where somebody does, and the other way round."""
    open_door = "tls://.:{port} {\n tls server.pem server.key ca.pem {\n client_auth require\n }\n whoami\n}\n"
    closed = "tls://.:{port2} {\n tls server.pem server.key ca.pem {\n client_auth require_and_verify\n }\n whoami\n}\n"
    server = serve(open_door + closed, prepare=write_certificates)
    stranger = Client(server, "stranger", version)
    assert [stranger.resumes(), stranger.resumes()] == [False, True]
    with pytest.raises((EOFError, OSError)):
        stranger.resumes(server.ports["port2"])
    client = Client(server, "client", version)
    assert not client.resumes(server.ports["port2"])
    assert client.resumes(server.ports["port2"])
    assert not client.resumes()


@pytest.mark.parametrize("missing", [0, 1])
def test_a_ticket_goes_with_the_first_reply(serve: Callable[..., Server], missing: int) -> None:
    """Where the query has come with the end of the handshake; without the query's last octet nothing waits for it."""
    server = serve(COREFILE, prepare=write_certificates)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_context(server.folder).wrap_bio(incoming, outgoing)
    with socket.create_connection(("127.0.0.1", server.port), REPLY) as plain:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(outgoing.read())
                incoming.write(plain.recv(65536))
        tls.write(framed(dns.message.make_query("a.test.", "A")))
        octets = outgoing.read()
        plain.sendall(octets[: len(octets) - missing])
        incoming.write(plain.recv(65536))
        if missing:
            with pytest.raises(ssl.SSLWantReadError):
                tls.read()
            plain.sendall(octets[-missing:])
            incoming.write(plain.recv(65536))
        assert tls.read()
        assert tls.session is not None
        assert tls.session.has_ticket


def test_early_data_is_refused(serve: Callable[..., Server]) -> None:
    """No ticket says that it may be sent (RFC 8446 4.6.1)."""
    server = serve(COREFILE, prepare=write_certificates)
    client = Client(server)
    client.resumes()
    assert client.session is not None
    text = said(server, "-sess_out", str(server.folder / "session"))
    assert "New, TLSv1.3" in text
    text = said(server, "-sess_in", str(server.folder / "session"))
    assert "Reused, TLSv1.3" in text
    assert "Max Early Data: 0" in text


def said(server: Server, *options: str) -> str:
    """What openssl's client prints of a connection."""
    import subprocess

    from tests.programs import program

    words = [program("openssl"), "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_3", "-ign_eof", *options]
    done = subprocess.run(words, input=framed(dns.message.make_query("a.test.", "A")), capture_output=True, timeout=60, check=False)
    return done.stdout.decode(errors="replace")


def test_keys_are_handed_over_whole() -> None:
    with pytest.raises(ValueError, match="3 octets"):
        tickets.adopt(b"abc")


def test_silence_after_a_resumption_is_limited_too(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE.replace("whoami", "timeouts {\n read 1s\n }\n whoami"), prepare=write_certificates)
    client = Client(server)
    until(lambda: client.resumes() or None, "a resumption")
    with socket.create_connection(("127.0.0.1", server.port), REPLY) as plain, client.context.wrap_socket(plain, session=client.session) as tls:
        assert is_closed(tls)
