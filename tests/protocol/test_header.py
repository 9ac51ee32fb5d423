"""Flags of the header, against dnspython's."""

from __future__ import annotations

import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import pytest

from fastdns.protocol import header


@pytest.mark.parametrize("opcode", [0, 1, 4, 5, 15])
@pytest.mark.parametrize("rcode", [0, 3, 15])
@pytest.mark.parametrize("bits", [0, dns.flags.QR | dns.flags.AA | dns.flags.TC | dns.flags.RD | dns.flags.RA | dns.flags.AD | dns.flags.CD | 0x40])
def test_flags(opcode: int, rcode: int, bits: int) -> None:
    message = dns.message.Message(id=0xFFFF)
    message.flags = bits
    message.set_opcode(dns.opcode.Opcode.make(opcode))
    message.set_rcode(dns.rcode.Rcode.make(rcode))
    flags = header.message_flags(message.to_wire())
    assert (header.flags_opcode(flags), header.flags_rcode(flags)) == (opcode, rcode)
    assert flags & ~header.FLAGS_OPCODE & ~15 == bits


def test_bits_are_those_of_dnspython() -> None:
    for name in ("QR", "AA", "RD", "RA", "CD"):
        assert getattr(header, f"FLAG_{name}") == getattr(dns.flags, name)
    assert (header.OPCODE_QUERY, header.OPCODE_NOTIFY) == (dns.opcode.QUERY, dns.opcode.NOTIFY)
