"""What a Python plugin sees of a query. The contract is in executor/request.pxd, the whole of it in query.py."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from fastdns.system.atomic cimport atomic_peek8
from fastdns.walk.query cimport TRANSPORT_TCP, TRANSPORT_UDP, transport_is_udp
from fastdns.system.address cimport address_text
from fastdns._wire cimport ACCEPT, Edns, Message, Name, wire_accept, wire_name_copy, wire_name_text


cdef class PluginQuery:
    """A query as a Python plugin sees it; see query.Query for the whole."""

    def __cinit__(self):
        self.ticket = NULL

    def __dealloc__(self):
        if self.alone:
            free(self.ticket)

    cdef int _check(self) except -1:
        if self.ticket == NULL:
            raise RuntimeError("the query was answered already")
        return 0

    @property
    def name(self):
        """The name asked, lower case, with its final dot."""
        cdef char out[1100]
        if self._name is None:
            self._check()
            self._name = out[:wire_name_text(self.ticket.name.lower, out)].decode("ascii")
        return self._name

    @property
    def qname(self):
        """The name asked, with the case as received."""
        cdef char out[1100]
        self._check()
        return out[:wire_name_text(self.ticket.name.wire, out)].decode("ascii")

    @property
    def name_wire(self):
        """The name in wire form, with the case as received."""
        self._check()
        return self.ticket.name.wire[:self.ticket.name.length]

    @property
    def qtype(self):
        """The type asked, as a number."""
        self._check()
        return self.ticket.qtype

    @property
    def qclass(self):
        self._check()
        return self.ticket.qclass

    @property
    def flags(self):
        """Header flags of the request (RD 0x0100, AD 0x0020, CD 0x0010)."""
        self._check()
        return self.ticket.flags

    @property
    def packet(self):
        """The request's octets."""
        self._check()
        return self.ticket.packet[:self.ticket.packet_length]

    @property
    def edns(self):
        """The OPT record of the request, as plugins above have changed it: (UDP size, its TTL's 32 bits, options); None where there is none."""
        cdef const Edns *edns
        cdef bytes options = b""
        self._check()
        edns = &self.ticket.edns
        if not edns.present:
            return None
        if edns.options_length:
            options = edns.options[:edns.options_length]
        return edns.udp_size, (<uint32_t>edns.extended_rcode << 24) + (<uint32_t>edns.version << 16) + edns.flags, options

    @property
    def client(self):
        """The client's address."""
        cdef char out[64]
        self._check()
        return out[:address_text(&self.ticket.client, out)].decode("ascii")

    @property
    def port(self):
        """The client's port."""
        self._check()
        return self.ticket.client.port

    @property
    def local(self):
        """The address that was asked."""
        cdef char out[64]
        self._check()
        return out[:address_text(&self.ticket.local, out)].decode("ascii")

    @property
    def proto(self):
        """``udp`` or ``tcp``."""
        self._check()
        return "udp" if transport_is_udp(self.ticket.transport) else "tcp"

    @property
    def abandoned(self):
        """Whether the client has been told SERVFAIL because the deadline passed."""
        return self.ticket == NULL or atomic_peek8(&self.ticket.abandoned) != 0


def make_query(kind, bytes packet not None, bytes client=b"\x7f\0\0\1", int port=40000, bytes local=b"\x7f\0\0\1", bint tcp=False):
    """A query of class `kind` outside of any server, for tests of plugins; addresses are 4 or 16 octets. ValueError when the packet is no query."""
    cdef Message message
    cdef Name name
    cdef uint8_t rcode
    cdef Ticket *ticket
    cdef PluginQuery query
    if wire_accept(packet, <uint32_t>len(packet), &message, &name, &rcode) != ACCEPT:
        raise ValueError("the packet is no query that the server accepts")
    ticket = <Ticket *>calloc(1, sizeof(Ticket) + len(packet))
    if ticket == NULL:
        raise MemoryError
    ticket.transport = TRANSPORT_TCP if tcp else TRANSPORT_UDP
    ticket.qtype = message.qtype
    ticket.qclass = message.qclass
    ticket.flags = message.flags
    ticket.client.family = 4 if len(client) == 4 else 6
    memcpy(ticket.client.octets, <const uint8_t *>client, len(client))
    ticket.client.port = <uint16_t>port
    ticket.local.family = 4 if len(local) == 4 else 6
    memcpy(ticket.local.octets, <const uint8_t *>local, len(local))
    ticket.packet = <uint8_t *>(ticket + 1)
    ticket.packet_length = <uint32_t>len(packet)
    memcpy(ticket.packet, <const uint8_t *>packet, len(packet))
    ticket.edns = message.edns
    if message.edns.options_length:
        ticket.edns.options = ticket.packet + (message.edns.options - <const uint8_t *>packet)
    wire_name_copy(&ticket.name, name.wire, name.length)
    query = kind.__new__(kind)
    query.ticket = ticket
    query.alone = True
    return query
