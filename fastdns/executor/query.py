"""What a Python plugin sees of a query, and what it may return."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from fastdns._wire import name_wire, records
from fastdns.executor.cluster import Cluster, Pod
from fastdns.executor.labels import client_address, read_label
from fastdns.executor.request import PluginQuery
from fastdns.protocol.header import FLAG_AA, FLAG_QR, flags_rcode
from fastdns.protocol.parameters import TYPE_OPT, rcode_number, type_number, type_text
from fastdns.zonefile.presentation import CLASS_IN, rdata_wire
from fastdns.zonefile.rdata import valid

if TYPE_CHECKING:
    import dnslib

    from fastdns.telemetry.counter import Counter

__all__ = ["DROP", "PASS", "Answer", "Failure", "Metadata", "Packable", "Query", "Record", "Remembered", "Reply", "Result", "Verdict", "Writable"]

HEADER_SIZE = 12
MESSAGE_MAX = 65535
#: Seconds (RFC 2181 8).
TTL_MAX = 2**31 - 1
OPT, TSIG = 41, 250
#: The EDNS option of extended errors (RFC 8914 2).
OPTION_ERROR = 15


class Verdict:
    """A result that may hold for more than one query: a `Reply`, a `Failure`, `PASS`, `DROP`."""

    __slots__ = ()

    def remember(
        self,
        seconds: float,
        *,
        suffix: str | None = None,
        all_types: bool = False,
        client: str | None = None,
        counter: Counter | None = None,
    ) -> Remembered:
        """This verdict for all queries of a scope: for ``seconds`` the server applies it without the plugin.

        The scope is the name and the type asked. ``suffix`` widens it to that name and all names below it, ``all_types`` to every type.
        ``client``, a prefix of addresses (``10.0.0.0/8``), narrows it to those clients. The present query must be in the scope; else the
        verdict is used once and an error is logged. Records without an owner belong to the name asked, whatever it is. No TTL is longer
        than the time that is left. ``counter``, which `fastdns.plugin.Metric.cell` returns, counts the queries that the verdict is applied to, this
        one included.
        """
        return Remembered(self, seconds, suffix, all_types, client, counter)


class Remembered:
    """A verdict and its scope: see `Verdict.remember`."""

    __slots__ = ("all_types", "client", "counter", "seconds", "suffix", "verdict")

    def __init__(self, verdict: Verdict, seconds: float, suffix: str | None, all_types: bool, client: str | None, counter: Counter | None) -> None:
        self.verdict = verdict
        self.seconds = seconds
        self.suffix = suffix
        self.all_types = all_types
        self.client = client
        self.counter = counter


class _Constant(Verdict):
    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


#: The plugins below answer. The same as returning None.
PASS: Final = _Constant("PASS")
#: Nothing is sent.
DROP: Final = _Constant("DROP")


class Failure(Verdict):
    """No message: the server answers with a bare ``rcode``, and *errors* logs ``error``."""

    __slots__ = ("error", "rcode")

    def __init__(self, rcode: int, error: str = "") -> None:
        self.rcode = rcode
        self.error = error


class Record:
    """One resource record: owner in wire form (None: the name asked), type number, TTL in seconds, rdata in wire form."""

    __slots__ = ("owner", "qtype", "rdata", "ttl")

    def __init__(self, qtype: int, rdata: bytes, ttl: int = 3600, owner: bytes | None = None) -> None:
        self.qtype = qtype
        self.rdata = rdata
        self.ttl = ttl
        self.owner = owner

    def to_wire(self, name: bytes) -> bytes:
        """The octets of the record; ``name`` is the name asked. Raises ValueError for a TTL over 31 bits, and for rdata that does not fit the type."""
        owner = name if self.owner is None else self.owner
        if not 0 <= self.ttl <= TTL_MAX:
            raise ValueError(f"a TTL is a number from 0 to {TTL_MAX}, not {self.ttl}")
        rdata = self.rdata if type(self.rdata) is bytes else bytes(memoryview(self.rdata))
        if self.qtype != TYPE_OPT and not valid(self.qtype, rdata):
            raise ValueError(f"the rdata of a record does not fit its type {type_text(self.qtype)}")
        return owner + struct.pack("!HHIH", self.qtype, CLASS_IN, self.ttl, len(rdata)) + rdata

    @classmethod
    def parse(cls, text: str, ttl: int = 3600) -> Record:
        """A record from ``[OWNER] [TTL] [IN] TYPE RDATA``, such as ``A 192.0.2.1`` or ``www.example.org. 60 IN MX 10 mail``.

        Raises ValueError.
        """
        words = text.split()
        owner: bytes | None = None
        for index, word in enumerate(words):
            try:
                qtype = type_number(word)
                break
            except ValueError:
                pass
            if word.upper() == "IN":
                continue
            if word.isdigit() and index:
                ttl = int(word)
            elif index == 0:
                owner = name_wire(word)
            else:
                raise ValueError(f"no record: {text!r}")
        else:
            raise ValueError(f"no record: {text!r}")
        return cls(qtype, rdata_wire(qtype, text.split(None, index + 1)[index + 1] if index + 1 < len(words) else ""), ttl, owner)


class Reply(Verdict):
    """A message that answers: see `Query.reply`."""

    __slots__ = ("additional", "answer", "authoritative", "authority", "rcode")

    def __init__(
        self,
        answer: Sequence[Record] = (),
        rcode: int = 0,
        authority: Sequence[Record] = (),
        additional: Sequence[Record] = (),
        authoritative: bool = True,
    ) -> None:
        self.answer = answer
        self.rcode = rcode
        self.authority = authority
        self.additional = additional
        self.authoritative = authoritative

    def to_wire(self, query: PluginQuery) -> bytes:
        """The message (uncompressed; the server compresses, fits and adds EDNS)."""
        name = query.name_wire
        flags = FLAG_QR | (FLAG_AA if self.authoritative else 0) | flags_rcode(self.rcode)
        parts = [name, struct.pack("!2H", query.qtype, query.qclass)]
        counts = []
        size = HEADER_SIZE + len(name) + 4
        for section in (self.answer, self.authority, self.additional):
            former = len(parts)
            for record in section:
                octets = record.to_wire(name)
                size += len(octets)
                if size > MESSAGE_MAX:
                    raise ValueError(f"the reply is too large: a DNS message has at most {MESSAGE_MAX} octets")
                parts.append(octets)
            counts.append(len(parts) - former)
        return struct.pack("!6H", 0, flags, 1, *counts) + b"".join(parts)


class Answer:
    """What the plugins below answered. ``message`` is None after a failure, which ``rcode`` and ``error`` describe."""

    __slots__ = ("error", "message", "rcode")

    def __init__(self, message: bytes | None, rcode: int, error: str = "") -> None:
        self.message = message
        self.rcode = rcode
        self.error = error

    def to_wire(self, query: PluginQuery) -> bytes:
        if self.message is None:
            raise ValueError("there is no message from below to pass on")
        return self.message

    @property
    def records(self) -> list[tuple[int, Record]]:
        """All records, each with its section (0 answer, 1 authority, 2 additional); OPT is left out."""
        if self.message is None:
            return []
        return [(section, Record(qtype, rdata, ttl, owner)) for section, owner, qtype, _, ttl, rdata in records(self.message) if qtype != TYPE_OPT]

    @property
    def record(self) -> dnslib.DNSRecord:
        """The message as a `dnslib` record."""
        import dnslib

        if self.message is None:
            raise ValueError("there is no message from below")
        return dnslib.DNSRecord.parse(self.message)

    @property
    def failed(self) -> bool:
        return self.message is None


class Packable(Protocol):
    """A message that packs itself, as `dnslib.DNSRecord` does."""

    def pack(self) -> bytes | bytearray: ...


class Writable(Protocol):
    """A message that writes itself, as `dns.message.Message` does."""

    def to_wire(self) -> bytes: ...


#: What ``serve`` may return. See docs/writing-plugins.md.
Result: TypeAlias = Verdict | Remembered | Answer | Packable | Writable | bytes | bytearray | None


class Metadata:
    """Labels that plugins of the server block publish about a query, where it has *metadata*: ``metadata["kubernetes/client-namespace"]``.

    Read-only, and not iterable: a value is computed when it is read, by the worker that has the query, as it is at that moment. A read takes some
    tens of microseconds. Raises KeyError for a label that is unset, and RuntimeError when the query is answered or its deadline has passed.
    """

    __slots__ = ("_query",)

    def __init__(self, query: Query) -> None:
        self._query = query

    def __getitem__(self, label: str) -> str:
        value = self._read(label)
        if value is None:
            raise KeyError(label)
        return value

    def get(self, label: str, default: str = "") -> str:
        """The label's value, or ``default`` where it is unset."""
        value = self._read(label)
        return default if value is None else value

    def __contains__(self, label: str) -> bool:
        return self._read(label) is not None

    def _read(self, label: str) -> str | None:
        given = self._query._given
        return read_label(self._query, label) if given is None else given.metadata.get(label)


class Given:
    """What stands for the server block in a test: see `fastdns.testing.make`."""

    __slots__ = ("cluster", "metadata")

    def __init__(self, metadata: Mapping[str, str], cluster: Cluster | None) -> None:
        self.metadata = metadata
        self.cluster = cluster


class Query(PluginQuery):
    """A query. Attributes: ``name`` (lower case), ``qname`` (as received), ``qtype`` (number), ``type`` (text), ``qclass``, ``flags``,
    ``client``, ``port``, ``local``, ``proto``, ``packet`` (octets), ``message`` (a `dnslib` record), ``metadata``, ``cluster``, ``client_pod``."""

    @property
    def metadata(self) -> Metadata:
        """The labels that plugins of the server block publish about this query."""
        return Metadata(self)

    @property
    def cluster(self) -> Cluster | None:
        """The cluster's services, endpoints and pods, as *kubernetes* of the server block has them; None where there is none."""
        if self._given is not None:
            cluster: Cluster | None = self._given.cluster
            return cluster
        if self.handler is None:
            return None
        found: Cluster | None = self.handler.cluster()
        return found

    @property
    def client_pod(self) -> Pod | None:
        """The pod that asks; needs *kubernetes* with ``pods verified``.

        None where no pod has the client's address, where several have it (one ends, another begins), and where it is the node's.
        """
        cluster = self.cluster
        return None if cluster is None else cluster.pod(client_address(self))

    @property
    def type(self) -> str:
        """The type asked, such as ``A`` or ``TYPE65280``."""
        return type_text(self.qtype)

    @property
    def request(self) -> bytes:
        """A message that asks what the plugins above want asked: with their name, type, flags and EDNS. What to send to another server."""
        packet = self.packet
        question = self.name_wire + struct.pack("!2H", self.qtype, self.qclass)
        opt = self.edns
        found = records(packet)
        came = next(((klass, ttl, rdata) for _, _, qtype, klass, ttl, rdata in found if qtype == OPT), None)
        head = packet[:2] + struct.pack("!H", self.flags & ~FLAG_QR)
        if packet.startswith(question, HEADER_SIZE) and came == opt:
            return head + packet[4:]
        counts = [0, 0, 0]
        parts = []
        for section, owner, qtype, klass, ttl, rdata in found:
            if qtype not in (OPT, TSIG):  # a signature no longer holds
                counts[section] += 1
                parts.append(owner + struct.pack("!HHIH", qtype, klass, ttl, len(rdata)) + rdata)
        if opt is not None:
            counts[2] += 1
            parts.append(b"\0" + struct.pack("!HHIH", OPT, opt[0], opt[1], len(opt[2])) + opt[2])
        return head + struct.pack("!4H", 1, *counts) + question + b"".join(parts)

    @property
    def message(self) -> dnslib.DNSRecord:
        """The request as a `dnslib` record, made when first asked for."""
        import dnslib

        return dnslib.DNSRecord.parse(self.packet)

    def reply(
        self,
        *answer: str | Record,
        rcode: int | str = 0,
        ttl: int = 3600,
        authority: Iterable[str | Record] = (),
        additional: Iterable[str | Record] = (),
        authoritative: bool = True,
        ede: int | None = None,
    ) -> Reply:
        """An answer from records: `Record` objects or texts such as ``"A 192.0.2.1"`` (the owner is the name asked, unless given).

        ``ede`` is the code of an extended error (RFC 8914), such as 15 for Blocked; clients without EDNS do not get it.
        Raises ValueError for a text that is no record and for an unknown rcode.
        """

        def made(given: Iterable[str | Record]) -> list[Record]:
            return [Record.parse(record, ttl) if isinstance(record, str) else record for record in given]

        extra = made(additional)
        if ede is not None:
            extra.append(Record(TYPE_OPT, struct.pack("!3H", OPTION_ERROR, 2, ede), 0, b"\0"))
        return Reply(made(answer), rcode_number(rcode), made(authority), extra, authoritative)

    def fail(self, rcode: int | str = "SERVFAIL", error: str = "") -> Failure:
        """Nothing is written: SERVFAIL, REFUSED, FORMERR or NOTIMP goes to the client, ``error`` to the log."""
        return Failure(rcode_number(rcode), error)
