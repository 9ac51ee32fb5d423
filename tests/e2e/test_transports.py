"""One server with every transport, asked on each: what wheels and the image must have been built with."""

from __future__ import annotations

from collections.abc import Callable

import dns.message
import httpx

from tests import grpc_client, quic
from tests.certificates import client_context, write_certificates
from tests.server import Server
from tests.tls.client import ask
from tests.waiting import REPLY

SCHEMES = {"dns": "port", "tls": "port2", "https": "port3", "grpc": "port4", "quic": "port5", "https3": "port6"}
BLOCK = "{scheme}://.:{{{port}}} {{\n    bind 127.0.0.1\n{tls}    hosts {{\n        192.0.2.{number} a.test\n    }}\n}}\n"
TLS = "    tls {dir}/server.pem {dir}/server.key\n"
QUESTION = quic.query("a.test.")


def address(message: dns.message.Message) -> str:
    return str(message.answer[0][0])


def test_all_transports_of_one_server(serve: Callable[..., Server]) -> None:
    blocks = (
        BLOCK.format(scheme=scheme, port=port, number=number, tls="" if scheme == "dns" else TLS) for number, (scheme, port) in enumerate(SCHEMES.items(), 1)
    )
    server = serve("".join(blocks), prepare=write_certificates)
    ports = {scheme: int(server.ports[port]) for scheme, port in SCHEMES.items()}
    found = {"dns": address(server.query("a.test.")), "tls": address(ask(server, port=ports["tls"]))}
    with httpx.Client(http2=True, verify=client_context(server.folder), timeout=REPLY) as web:
        reply = web.post(f"https://127.0.0.1:{ports['https']}/dns-query", content=QUESTION, headers={"content-type": "application/dns-message"})
        assert reply.http_version == "HTTP/2"
        found["https"] = address(dns.message.from_wire(reply.content))
    with grpc_client.client(ports["grpc"], server.folder) as remote:
        found["grpc"] = address(remote.query("a.test."))
    with quic.Client(ports["quic"]) as stream:
        found["quic"] = address(stream.ask(QUESTION))
    with quic.WebClient(ports["https3"]) as client:
        found["https3"] = address(dns.message.from_wire(client.fetch(body=QUESTION).body))
    assert found == {scheme: f"192.0.2.{number}" for number, scheme in enumerate(SCHEMES, 1)}
