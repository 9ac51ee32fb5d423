"""The Corefile of a node: the template with its variables replaced, and a server block for each stub domain.

The variables, and the two keys of the ConfigMap `kube-dns`, are node-cache's (kubernetes/dns `cmd/node-cache/app/configmap.go`).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from fastdns.corefile.address import split_address

__all__ = ["MODE", "REPLICA", "KubeDNS", "TemplateError", "read_kube_dns", "render", "template_of"]

UPSTREAM = "__PILLAR__UPSTREAM__SERVERS__"
CLUSTER = "__PILLAR__CLUSTER__DNS__"
LOCAL = "__PILLAR__LOCAL__DNS__"
SERVER = "__PILLAR__DNS__SERVER__"

#: Beside the template: which one is used, and the template of replicas.
MODE = "kubernetes-mode"
REPLICA = "Corefile.replica"

#: Custom upstream servers are queried over UDP, so a line `force_tcp` is removed from such a block.
TCP_BLOCK = re.compile(rf"(forward[ \t]+\.[ \t]+{UPSTREAM})[ \t]*\{{\s*force_tcp\s*\}}")
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
#: More upstream servers are refused.
SERVERS_MAX = 3


class TemplateError(ValueError):
    """A ConfigMap is invalid."""


class KubeDNS(NamedTuple):
    """The contents of the ConfigMap `kube-dns`."""

    #: Servers by domain.
    stub_domains: dict[str, list[str]] = {}  # noqa: RUF012 - never written
    upstreams: list[str] = []  # noqa: RUF012 - never written


def read_kube_dns(folder: Path) -> KubeDNS:
    """The ConfigMap in a folder, a file a key. Raises OSError, TemplateError."""
    stubs = _json(folder / "stubDomains", {})
    upstreams = _json(folder / "upstreamNameservers", [])
    if not isinstance(stubs, dict) or not all(_texts(servers) for servers in stubs.values()):
        raise TemplateError("stubDomains: an object of lists of servers is wanted")
    if not _texts(upstreams):
        raise TemplateError("upstreamNameservers: a list of servers is wanted")
    if len(upstreams) > SERVERS_MAX:
        raise TemplateError("upstreamNameserver cannot have more than three entries")
    for domain, servers in stubs.items():
        if len(domain) > 253 or not all(LABEL.fullmatch(label) for label in domain.split(".")):
            raise TemplateError(f'invalid domain name: "{domain}"')
        _validate(servers, f"the stub domain {domain}")
    _validate(upstreams, "upstreamNameservers")
    return KubeDNS(stubs, upstreams)


def template_of(base: Path) -> Path:
    """The template that `kubernetes-mode` beside ``base`` asks for: ``base`` with `cache`, or where there is no such file. Raises OSError, TemplateError."""
    try:
        mode = base.with_name(MODE).read_text("utf-8").strip()
    except FileNotFoundError:
        return base
    if mode not in ("cache", "replica"):
        raise TemplateError(f'{MODE}: "{mode}" is neither cache nor replica')
    return base if mode == "cache" else base.with_name(REPLICA)


def _json(path: Path, default: object) -> Any:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return default
    try:
        return json.loads(text)
    except ValueError as error:
        raise TemplateError(f"{path.name}: {error}") from None


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _validate(servers: list[str], where: str) -> None:
    """Check a server before it is written into the Corefile: an address, a name or a port, with an optional `tls://` or `dns://`."""
    for server in servers:
        host = server.removeprefix("tls://").removeprefix("dns://")
        if not re.fullmatch(r"[A-Za-z0-9:.%_\[\]-]+", host):
            raise TemplateError(f'invalid nameserver "{server}" for {where}')
        if host.startswith("[") or host.count(":") == 1:
            try:
                port = split_address(host)[1]
            except ValueError as error:
                raise TemplateError(f'invalid nameserver "{server}" for {where}: {error}') from None
            if not port.isdecimal() or int(port) > 65535:
                raise TemplateError(f'invalid nameserver "{server}" for {where}')


def render(template: str, local: list[str], port: str, cluster: str | None, kube_dns: KubeDNS) -> str:
    """The Corefile. ``local`` are the addresses to serve on, ``cluster`` the upstream Service's. Raises TemplateError."""
    addresses = " ".join(local)
    text = template
    if kube_dns.upstreams:
        text = TCP_BLOCK.sub(r"\1", text)
    text = text.replace(UPSTREAM, " ".join(kube_dns.upstreams) or "/etc/resolv.conf")
    if CLUSTER in text:
        if cluster is None:
            raise TemplateError(f"{CLUSTER} stands in the template, and the upstream service has no address in the environment")
        text = text.replace(CLUSTER, cluster)
    text = text.replace(LOCAL, addresses).replace(SERVER, "")
    for domain, servers in kube_dns.stub_domains.items():
        text += f"\n{domain}:{port} {{\n    errors\n    cache 30\n    bind {addresses}\n    forward . {' '.join(servers)}\n}}\n"
    return text
