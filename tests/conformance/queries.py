"""Queries as cases write them: ``NAME [CLASS] TYPE [+option…]``."""

from __future__ import annotations

import random
from collections.abc import Callable

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import dns.tsig

__all__ = ["FLAGS", "TRANSPORTS", "Query", "flag_names"]

#: Bits of the second 16 bits of a header, by the names that cases use.
FLAGS = {"aa": 0x0400, "tc": 0x0200, "rd": 0x0100, "ra": 0x0080, "z": 0x0040, "ad": 0x0020, "cd": 0x0010}
TRANSPORTS = ("tcp", "tls", "https", "https3", "quic", "grpc", "udp")
#: Options that give the query an OPT record.
EDNS = frozenset({"do", "edns", "bufsize", "nsid", "subnet", "cookie", "opt", "ednsver"})


def flag_names(bits: int) -> str:
    return " ".join(name for name, bit in FLAGS.items() if bits & bit)


class Query:
    """One query: the message, and how it is to be sent."""

    def __init__(self, text: str, fill: Callable[[str], str], port: int) -> None:
        """``fill`` replaces placeholders in options; ``port`` is the server's where the query names no other."""
        self.text = text
        self.options: dict[str, list[str]] = {}
        for word in text.split():
            if word.startswith("+"):
                name, _, value = word[1:].partition("=")
                self.options.setdefault(name, []).append(fill(value))
        self.transport = next((name for name in TRANSPORTS if name in self.options), "udp")
        self.host = self.option("host", "127.0.0.1")
        self.port = int(self.option("port", str(port)))
        self.source = self.option("src", "") or None
        #: Seconds to wait for the reply, and how long to go on while nothing listens.
        self.timeout = float(self.option("timeout", "3"))
        self.refused_limit = 2.0
        self.key: dns.tsig.Key | None = None
        self.message = self._build()

    def option(self, name: str, default: str) -> str:
        return self.options[name][0] if name in self.options else default

    def wire(self) -> bytes:
        return self.message.to_wire(max_size=65535)

    def _build(self) -> dns.message.Message:
        message = dns.message.Message(id=int(self.option("id", str(random.randrange(65536)))))
        message.flags = dns.flags.Flag(0 if "nord" in self.options else dns.flags.RD)
        for name, bit in FLAGS.items():
            if name in self.options:
                message.flags |= bit
        message.set_opcode(dns.opcode.from_text(self.option("opcode", "QUERY")))
        if "noquestion" not in self.options:
            message.question.extend(self._questions())
        if EDNS.isdisjoint(self.options):
            message.use_edns(-1)
        else:
            flags = dns.flags.DO if "do" in self.options else 0
            message.use_edns(int(self.option("ednsver", "0")), flags, int(self.option("bufsize", "1232")), options=self._edns_options())
        if "tsig" in self.options:
            name, secret, *algorithm = self.options["tsig"][0].split(":")
            self.key = dns.tsig.Key(name, secret, dns.name.from_text(algorithm[0] if algorithm else "hmac-sha256."))
            message.use_tsig({self.key.name: self.key})
        return message

    def _questions(self) -> list[dns.rrset.RRset]:
        name, *rest = [word for word in self.text.split() if not word.startswith("+")]
        rdclass, rdtype = rest if len(rest) == 2 else ["IN", *(rest or ["A"])]
        key = dns.rdataclass.from_text(rdclass), dns.rdatatype.from_text(rdtype)
        return [dns.rrset.RRset(dns.name.from_text(each), *key) for each in [name, *self.options.get("also", [])]]

    def _edns_options(self) -> list[dns.edns.Option]:
        options: list[dns.edns.Option] = []
        if "nsid" in self.options:
            options.append(dns.edns.GenericOption(dns.edns.OptionType.NSID, bytes.fromhex(self.options["nsid"][0])))
        if "subnet" in self.options:
            address, _, bits = self.options["subnet"][0].partition("/")
            options.append(dns.edns.ECSOption(address, int(bits)))
        if "cookie" in self.options:
            options.append(dns.edns.GenericOption(dns.edns.OptionType.COOKIE, bytes.fromhex(self.options["cookie"][0])))
        for value in self.options.get("opt", []):
            code, _, data = value.partition(":")
            options.append(dns.edns.GenericOption(dns.edns.OptionType.make(int(code)), bytes.fromhex(data)))
        return options
