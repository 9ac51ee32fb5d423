"""The ports that UDP queries leave from."""

from __future__ import annotations

from pathlib import Path

__all__ = ["source_ports"]

SYSTEM = Path("/proc/sys/net/ipv4")
#: What Linux has where nobody has set anything.
LOCAL = range(32768, 61000)
UNPRIVILEGED = range(1024, 65536)
#: Kubernetes's default for Services of type NodePort: replies to such a port of a node may go to the Service.
NODE_PORTS = range(30000, 32768)


def source_ports(wide: bool) -> list[int]:
    """Those that the kernel would choose from (ip_local_port_range), or if ``wide`` all above 1023 but NodePorts; never those in ip_local_reserved_ports."""
    ports = set(UNPRIVILEGED).difference(NODE_PORTS) if wide else set(_local())
    return sorted(ports - _reserved()) or list(LOCAL)


def _local() -> range:
    try:
        first, last = map(int, (SYSTEM / "ip_local_port_range").read_text().split())
    except (OSError, ValueError):
        return LOCAL
    return range(first, last + 1)


def _reserved() -> set[int]:
    try:
        text = (SYSTEM / "ip_local_reserved_ports").read_text()
    except OSError:
        return set()
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            found.update(range(int(first), int(last or first) + 1))
    return found
