"""The dummy interface that carries the addresses, made through rtnetlink: the image needs no `ip` command."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct

from fastdns.system import interfaces
from fastdns.system.interfaces import ADDRESS, ATTRIBUTE, HEADER, NETLINK_ROUTE, NLMSG_ERROR

__all__ = ["ensure", "is_there", "remove"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: linux/rtnetlink.h, linux/netlink.h, linux/if_link.h, linux/if_addr.h
RTM_NEWLINK = 16
RTM_DELLINK = 17
RTM_NEWADDR = 20
RTM_DELADDR = 21
NLM_F_REQUEST = 0x1
NLM_F_ACK = 0x4
NLM_F_EXCL = 0x200
NLM_F_CREATE = 0x400
IFLA_IFNAME = 3
IFLA_LINKINFO = 18
IFLA_INFO_KIND = 1
IFA_ADDRESS = 1
IFA_LOCAL = 2
IFA_FLAGS = 8
IFA_F_NODAD = 0x02
IFF_UP = 0x1

#: Where the kernel has no dummy interfaces, a bridge without ports does the same.
KINDS = (b"dummy", b"bridge")

#: The interface that every network has. It gets the addresses and stays, so that no other one is needed.
LOOPBACK = "lo"

LINK = struct.Struct("=BxHiII")  # ifinfomsg: family, type, index, flags, change


def ensure(name: str, addresses: list[Address]) -> bool:
    """Add the interface and its addresses unless they exist. Returns whether the interface existed. Raises OSError."""
    there = True
    try:
        index = socket.if_nametoindex(name)
    except OSError:
        there = False
        _create(name)
        index = socket.if_nametoindex(name)
    if addresses[0].version == 6:
        # An IPv4 address works on an interface that is down. node-cache leaves it down, so that it is not taken for an address of the node.
        _request(RTM_NEWLINK, 0, LINK.pack(0, 0, index, IFF_UP, IFF_UP))
    for address in addresses:
        body = _address(index, address)
        if address.version == 6:
            body += _attribute(IFA_FLAGS, struct.pack("=I", IFA_F_NODAD))
        try:
            _request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, body)
        except FileExistsError:
            continue
    return there


def is_there(name: str, addresses: list[Address]) -> bool:
    """Whether the interface has all these addresses. Raises OSError."""
    found = [text.partition("%")[0] for text in interfaces.addresses().get(name, [])]
    return all(str(address) in found for address in addresses)


def _address(index: int, address: Address) -> bytes:
    family, length = (socket.AF_INET, 32) if address.version == 4 else (socket.AF_INET6, 128)
    return ADDRESS.pack(family, length, 0, 0, index) + _attribute(IFA_LOCAL, address.packed) + _attribute(IFA_ADDRESS, address.packed)


def _create(name: str) -> None:
    for kind in KINDS:
        information = _attribute(IFLA_LINKINFO, _attribute(IFLA_INFO_KIND, kind))
        try:
            _request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, LINK.pack(0, 0, 0, 0, 0) + _attribute(IFLA_IFNAME, name.encode() + b"\0") + information)
            return
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP or kind == KINDS[-1]:
                raise


def remove(name: str, addresses: list[Address]) -> None:
    """Delete the interface, or from `LOOPBACK` the addresses, if they are there. Raises OSError."""
    there = {known: index for index, known in socket.if_nameindex()}
    if name not in there:
        return
    if name != LOOPBACK:
        _request(RTM_DELLINK, 0, LINK.pack(0, 0, there[name], 0, 0))
        return
    for address in addresses:
        try:
            _request(RTM_DELADDR, 0, _address(there[name], address))
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise


def _attribute(kind: int, value: bytes) -> bytes:
    return ATTRIBUTE.pack(ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)


def _request(kind: int, flags: int, body: bytes) -> None:
    """Send a netlink request and wait for its acknowledgement. Raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_ROUTE) as link:
        link.settimeout(5.0)
        link.send(HEADER.pack(HEADER.size + len(body), kind, NLM_F_REQUEST | NLM_F_ACK | flags, 1, 0) + body)
        data = link.recv(1 << 16)
    answer = HEADER.unpack_from(data)[1]
    if answer != NLMSG_ERROR:
        raise OSError(errno.EPROTO, f"netlink answered {answer}")
    code = -int(struct.unpack_from("=i", data, HEADER.size)[0])
    if code:
        raise OSError(code, os.strerror(code))
