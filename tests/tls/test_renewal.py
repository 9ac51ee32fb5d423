"""Certificates that change on disk: taken up without a signal, or refused with a line in the log."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import dns.message
import pytest

from tests.certificates import common_name, write_certificate, write_certificates
from tests.server import Server
from tests.telemetry.test_events import told
from tests.tls.client import connect, framed, read
from tests.waiting import until

COREFILE = "tls://.:{port} {\n tls server.pem server.key ca.pem {\n client_auth verify_if_given\n }\n timeouts {\n idle 1h\n read 1h\n }\n whoami\n}"
CHANGED = r"\[ERROR\] plugin/tls: server\.pem, server\.key, ca\.pem have changed and cannot be used: "


def name(server: Server) -> str:
    """Of the certificate that the server shows."""
    with connect(server) as connection:
        return common_name(connection.getpeercert(True))


def test_a_renewed_certificate(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE, prepare=write_certificates)
    with connect(server) as before:
        write_certificate(server.folder, "server", "renewed.test")
        until(lambda: name(server) == "renewed.test", "the renewal")
        server.wait_log(r"^\[INFO\] plugin/tls: Read server\.pem, server\.key, ca\.pem again$")
        assert told(server, "certificate") == [("server.pem, server.key, ca.pem", "the files have changed")]
        before.sendall(framed(dns.message.make_query("a.test.", "A")))
        assert read(before).additional  # connections that stand keep the former one
    assert "ERROR" not in server.log()


def test_a_secret_of_kubernetes(serve: Callable[..., Server]) -> None:
    """Files are links through a link that is swapped: FILE -> ..data/FILE, ..data -> ..2026_1."""

    def prepare(folder: Path) -> None:
        for version, common in (("1", "first.test"), ("2", "second.test")):
            volume = folder / f"..2026_{version}"
            volume.mkdir()
            write_certificates(volume) if version == "1" else shutil.copytree(folder / "..2026_1", volume, dirs_exist_ok=True)
            write_certificate(volume, "server", common)
        (folder / "..data").symlink_to("..2026_1")
        for file in ("server.pem", "server.key", "ca.pem"):
            (folder / file).symlink_to(f"..data/{file}")

    server = serve(COREFILE, prepare=prepare)
    assert name(server) == "first.test"
    (server.folder / "..data_tmp").symlink_to("..2026_2")
    os.replace(server.folder / "..data_tmp", server.folder / "..data")
    until(lambda: name(server) == "second.test", "the renewal")


def test_a_key_that_does_not_fit(serve: Callable[..., Server]) -> None:
    server = serve(COREFILE, prepare=write_certificates)
    kept = (server.folder / "server.key").read_bytes()
    write_certificate(server.folder, "server", "renewed.test")
    fitting = (server.folder / "server.key").read_bytes()
    (server.folder / "server.key").write_bytes(kept)
    server.wait_log(CHANGED + r"private key does not match public key; what was read before stays in use$")
    assert name(server) == "server.test"
    (server.folder / "server.key").write_bytes(fitting)
    until(lambda: name(server) == "renewed.test", "the renewal")


@pytest.mark.parametrize("spoil", ["unlink", "empty"])
def test_files_that_are_gone_or_empty(serve: Callable[..., Server], spoil: str) -> None:
    server = serve(COREFILE, prepare=write_certificates)
    if spoil == "unlink":
        (server.folder / "server.pem").unlink()
    else:
        (server.folder / "server.pem").write_bytes(b"")
    server.wait_log(CHANGED)
    assert name(server) == "server.test"
    assert server.log().count("cannot be used") == 1


def test_renewed_authorities(serve: Callable[..., Server]) -> None:
    """Who is trusted changes with the file, too."""
    server = serve(COREFILE.replace("verify_if_given", "require_and_verify"), prepare=write_certificates)
    stranger = (server.folder / "stranger.pem").read_bytes()

    def is_served(certificate: str) -> bool:
        try:
            with connect(server, certificate) as connection:
                connection.sendall(framed(dns.message.make_query("a.test.", "A")))
                return bool(read(connection).additional)
        except (EOFError, OSError):
            return False

    assert [is_served("client"), is_served("stranger")] == [True, False]
    (server.folder / "ca.pem").write_bytes((server.folder / "ca.pem").read_bytes() + stranger)
    until(lambda: is_served("stranger"), "the renewal")
    assert is_served("client")


def test_after_a_reload_once(serve: Callable[..., Server]) -> None:
    """The files are the new configuration's, and no longer the former one's."""
    server = serve(COREFILE, prepare=write_certificates)
    server.reload(COREFILE.replace("whoami", "any\n whoami"))
    write_certificate(server.folder, "server", "renewed.test")
    until(lambda: name(server) == "renewed.test", "the renewal")
    write_certificate(server.folder, "server", "again.test")
    until(lambda: name(server) == "again.test", "the second renewal")
    server.wait_log(r"(?s)(ca\.pem again\n.*){2}")
    assert server.log().count("ca.pem again") == 2
