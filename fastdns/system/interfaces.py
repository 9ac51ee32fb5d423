"""The machine's network interfaces and their addresses, asked from the kernel (rtnetlink)."""

from __future__ import annotations

import socket
import struct

__all__ = ["addresses"]

#: linux/rtnetlink.h, linux/netlink.h, linux/if_addr.h
RTM_GETADDR = 22
RTM_NEWADDR = 20
NLM_F_REQUEST_DUMP = 0x301
NLMSG_ERROR = 2
NLMSG_DONE = 3
IFA_ADDRESS = 1
IFA_LOCAL = 2
NETLINK_ROUTE = 0

HEADER = struct.Struct("=LHHLL")  # nlmsghdr: length, type, flags, sequence, port
ADDRESS = struct.Struct("=BBBBL")  # ifaddrmsg: family, prefix length, flags, scope, interface
ATTRIBUTE = struct.Struct("=HH")  # rtattr: length, type
SIZES = {socket.AF_INET: 4, socket.AF_INET6: 16}


def addresses() -> dict[str, list[str]]:
    """Addresses by interface name, in the kernel's order; link-local IPv6 ones carry their zone (``fe80::1%eth0``). Raises OSError."""
    found: dict[str, list[str]] = {name: [] for _, name in socket.if_nameindex()}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_ROUTE) as link:
        link.settimeout(2.0)
        body = ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        link.send(HEADER.pack(HEADER.size + len(body), RTM_GETADDR, NLM_F_REQUEST_DUMP, 1, 0) + body)
        while True:
            data = link.recv(1 << 16)
            while len(data) >= HEADER.size:
                length, kind = HEADER.unpack_from(data)[:2]
                if kind in (NLMSG_DONE, NLMSG_ERROR) or length < HEADER.size:
                    return found
                if kind == RTM_NEWADDR:
                    _add(found, data[HEADER.size : length])
                data = data[(length + 3) & ~3 :]


def _add(found: dict[str, list[str]], body: bytes) -> None:
    family, _, _, _, index = ADDRESS.unpack_from(body)
    size = SIZES.get(family)
    if size is None:
        return
    attributes = {}
    rest = body[ADDRESS.size :]
    while len(rest) >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(rest)
        if length < ATTRIBUTE.size:
            break
        attributes[kind] = rest[ATTRIBUTE.size : length]
        rest = rest[(length + 3) & ~3 :]
    # On a point-to-point link IFA_ADDRESS is the other end.
    packed = attributes.get(IFA_LOCAL, attributes.get(IFA_ADDRESS, b""))
    if len(packed) != size:
        return
    try:
        name = socket.if_indextoname(index)
    except OSError:  # gone meanwhile
        return
    text = socket.inet_ntop(family, packed)
    if family == socket.AF_INET6 and packed[0] == 0xFE and packed[1] & 0xC0 == 0x80:
        text += f"%{name}"
    found.setdefault(name, []).append(text)
