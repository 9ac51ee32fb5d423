"""`keylog`: with the file somebody who has recorded the traffic reads it."""

from __future__ import annotations

import stat
from collections.abc import Callable

import pytest

from tests.certificates import write_certificates
from tests.server import Server
from tests.tls.client import ask
from tests.tls.raw import RawClient

COREFILE = "tls://.:{port} {\n tls server.pem server.key {\n keylog secrets\n }\n whoami\n}"


def test_secrets_of_all_connections(serve: Callable[..., Server]) -> None:
    """What the server writes is what the client has written: the secrets of both sides (RFC 9850)."""
    server = serve(COREFILE, prepare=write_certificates)
    RawClient(server).socket.close()
    client = (server.folder / "client-keylog").read_text()
    wanted = {line for line in client.splitlines() if not line.startswith("#")}
    assert len(wanted) >= 4
    for _ in range(5):
        ask(server)
    lines = (server.folder / "secrets").read_text().splitlines()
    assert wanted <= set(lines)
    assert len({line.split()[1] for line in lines}) == 6
    assert all(len(line.split()) == 3 for line in lines)
    assert stat.S_IMODE((server.folder / "secrets").stat().st_mode) == 0o600


def test_it_is_said_and_appended(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE, prepare=lambda folder: (write_certificates(folder), (folder / "secrets").write_text("# before\n")))
    ask(server)
    assert (server.folder / "secrets").read_text().startswith("# before\n")
    server.wait_log(r'^\[WARNING\] plugin/tls: Writing TLS Key Log to ".*/secrets"$')


@pytest.mark.parametrize("place", ["none/secrets", "."])
def test_a_file_that_cannot_be_written(serve: Callable[..., Server], place: str) -> None:
    server = serve(COREFILE.replace("secrets", place), prepare=write_certificates, wait=False)
    assert server.exit_status() == 1
    assert "unable to write TLS Key Log" in server.log()
