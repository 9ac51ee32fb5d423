"""Requests and what a Python plugin sees of them. The contract is in executor/request.pxd, the class for plugins in query.py."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from fastdns.system.atomic cimport atomic_load32
from fastdns.system.mailbox cimport mailbox_post
from fastdns.walk.limit cimport limit_freed
from fastdns.walk.query cimport TRANSPORT_TCP, TRANSPORT_UDP, transport_is_udp
from fastdns.system.address cimport address_text
from fastdns._wire cimport ACCEPT, Edns, Message, Name, wire_accept, wire_name_copy, wire_name_text


cdef void request_push(RequestQueue *queue, Request *request) noexcept nogil:
    mailbox_post(&queue.mailbox, &request.mail.item)


cdef void request_free(Request *request) noexcept nogil:
    limit_freed(&request.queue.limit)
    free(request.message)
    free(request)


cdef class PluginQuery:
    """A query as a Python plugin sees it; see query.Query for the whole."""

    def __cinit__(self):
        self.request = NULL

    def __dealloc__(self):
        if self.alone:
            free(self.request)

    cdef int _check(self) except -1:
        if self.request == NULL:
            raise RuntimeError("the query was answered already")
        return 0

    @property
    def name(self):
        """The name asked, lower case, with its final dot."""
        cdef char out[1100]
        if self._name is None:
            self._check()
            self._name = out[:wire_name_text(self.request.name.lower, out)].decode("ascii")
        return self._name

    @property
    def qname(self):
        """The name asked, with the case as received."""
        cdef char out[1100]
        self._check()
        return out[:wire_name_text(self.request.name.wire, out)].decode("ascii")

    @property
    def name_wire(self):
        """The name in wire form, with the case as received."""
        self._check()
        return self.request.name.wire[:self.request.name.length]

    @property
    def qtype(self):
        """The type asked, as a number."""
        self._check()
        return self.request.qtype

    @property
    def qclass(self):
        self._check()
        return self.request.qclass

    @property
    def flags(self):
        """Header flags of the request (RD 0x0100, AD 0x0020, CD 0x0010)."""
        self._check()
        return self.request.flags

    @property
    def packet(self):
        """The request's octets."""
        self._check()
        return self.request.packet[:self.request.packet_length]

    @property
    def edns(self):
        """The OPT record of the request, as plugins above have changed it: (UDP size, its TTL's 32 bits, options); None where there is none."""
        cdef const Edns *edns
        cdef bytes options = b""
        self._check()
        edns = &self.request.edns
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
        return out[:address_text(&self.request.client, out)].decode("ascii")

    @property
    def port(self):
        """The client's port."""
        self._check()
        return self.request.client.port

    @property
    def local(self):
        """The address that was asked."""
        cdef char out[64]
        self._check()
        return out[:address_text(&self.request.local, out)].decode("ascii")

    @property
    def proto(self):
        """``udp`` or ``tcp``."""
        self._check()
        return "udp" if transport_is_udp(self.request.transport) else "tcp"

    @property
    def abandoned(self):
        """Whether the client got SERVFAIL because the deadline passed."""
        return self.request == NULL or atomic_load32(&self.request.state) == REQUEST_ABANDONED


def make_query(kind, bytes packet not None, bytes client=b"\x7f\0\0\1", int port=40000, bytes local=b"\x7f\0\0\1", bint tcp=False):
    """A query of class `kind` outside of any server, for tests of plugins; addresses are 4 or 16 octets. ValueError when the packet is no query."""
    cdef Message message
    cdef Name name
    cdef uint8_t rcode
    cdef Request *request
    cdef PluginQuery query
    if len(client) not in (4, 16) or len(local) not in (4, 16):
        raise ValueError("an address has 4 or 16 octets")
    query = kind.__new__(kind)
    if wire_accept(packet, <uint32_t>len(packet), &message, &name, &rcode) != ACCEPT:
        raise ValueError("the packet is no query that the server accepts")
    request = <Request *>calloc(1, sizeof(Request) + len(packet))
    if request == NULL:
        raise MemoryError
    request.transport = TRANSPORT_TCP if tcp else TRANSPORT_UDP
    request.qtype = message.qtype
    request.qclass = message.qclass
    request.flags = message.flags
    request.client.family = 4 if len(client) == 4 else 6
    memcpy(request.client.octets, <const uint8_t *>client, len(client))
    request.client.port = <uint16_t>port
    request.local.family = 4 if len(local) == 4 else 6
    memcpy(request.local.octets, <const uint8_t *>local, len(local))
    request.packet = <uint8_t *>(request + 1)
    request.packet_length = <uint32_t>len(packet)
    memcpy(request.packet, <const uint8_t *>packet, len(packet))
    request.edns = message.edns
    if message.edns.options_length:
        request.edns.options = request.packet + (message.edns.options - <const uint8_t *>packet)
    wire_name_copy(&request.name, name.wire, name.length)
    query.request = request
    query.alone = True
    return query
