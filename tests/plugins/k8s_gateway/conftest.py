"""A server that answers for a small API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dns.rcode
import dns.rdatatype
import pytest

from tests.conformance.kube_api import KubeAPI
from tests.plugins.kubernetes.conftest import fakekube
from tests.server import Server
from tests.waiting import until

__all__ = ["fakekube"]

ALL = "HTTPRoute TLSRoute GRPCRoute Ingress Service DNSEndpoint"


class Asked:
    """A server, its Corefile, and its API server if that is the small one."""

    def __init__(self, server: Server, corefile: str, api: KubeAPI | None = None) -> None:
        self.server, self.corefile = server, corefile
        self._api = api

    @property
    def api(self) -> KubeAPI:
        assert self._api is not None
        return self._api

    def answer(self, name: str, kind: str = "A") -> list[str]:
        """The rcode if it is not NOERROR, and the records of the answer, sorted, with their owners where these are others than the name."""
        reply = self.server.query(name, kind)
        rcode = dns.rcode.to_text(reply.rcode())
        found = []
        for rrset in reply.answer:
            owner = rrset.name.to_text()
            prefix = "" if owner.rstrip(".") == name.rstrip(".") else f"{owner} "
            found += [f"{prefix}{dns.rdatatype.to_text(rrset.rdtype)} {one.to_text()}" for one in rrset]
        return [*([rcode] if rcode != "NOERROR" else []), *sorted(found)]

    def becomes(self, name: str, *records: str, kind: str = "A") -> None:
        """Wait for an answer."""
        seen: list[list[str]] = []

        def arrived() -> bool:
            seen.append(self.answer(name, kind))
            return seen[-1] == sorted(records)

        try:
            until(arrived, f"the answer {records} for {name}")
        except AssertionError as error:
            raise AssertionError(f"{error}: it is {seen[-1]}") from None


@pytest.fixture
def gateway_of(serve: Any, fakekube: Any) -> Callable[..., Asked]:
    """``gateway_of(objects, properties)`` serves example.org."""

    def start(
        objects: Any = (),
        properties: str = f"resources {ALL}",
        zones: str = "example.org",
        more: str = "",
        absent: tuple[str, ...] = (),
        granted: list[str] | None = None,
    ) -> Asked:
        api = fakekube(objects)
        for plural in absent:
            api.install(plural)
        if granted is not None:
            api.grant(*granted)
        lines = "".join(f"  {line}\n" for line in properties.split("\n"))
        corefile = f".:{{port}} {{\n bind 127.0.0.1\n k8s_gateway {zones} {{\n  endpoint {api.url}\n{lines} }}\n{more}\n}}\n"
        return Asked(serve(corefile), corefile, api)

    return start
