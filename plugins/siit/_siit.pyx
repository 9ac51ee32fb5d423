"""The native handler of siit: on the way up, a reply without IPv4 addresses is replaced by one that is made of the AAAA records (RFC 6052, RFC 7757)."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy
from fastdns.api.metrics cimport Metric
from fastdns.api.network cimport Address, PrefixKey, PrefixNode, PrefixTree, Prefixes, address_from_octets, prefixes_first, prefixes_next
from fastdns.api.query cimport NEXT, UP, Handler, Query, Verdict, handler_init, query_fail
from fastdns.api.reply cimport Reply
from fastdns.api.wire cimport FLAG_AA, FLAG_RA, FLAG_TC, RCODE_NOERROR, RCODE_SERVFAIL, TYPE_A
from fastdns.plugins.dns64._synthesis cimport (Synthesis, SynthesisHandler, extract_ipv4, synthesis_ask, synthesis_begin, synthesis_copy,
                                               synthesis_is_possible, synthesis_reply, synthesis_translate)

cdef enum:
    RESERVED_OCTET = 8          # of an address with an IPv4 one in it: zero (RFC 6052 2.2)

cdef struct Siit:
    Synthesis synthesis         # first
    uint8_t prefix[12]
    uint32_t length             # octets of it
    const Prefixes *mapped      # IPv6 addresses with an IPv4 one of their own, by its number; NULL: none
    uint32_t *four              # these, by number, in network order; the first one is unused


cdef Verdict on_query(Handler *self, Query *q) noexcept nogil:
    synthesis_begin(self, q, not is_for_siit(q))
    return NEXT


cdef bint is_for_siit(const Query *q) noexcept nogil:
    """Whether it is asked, over any number of children, for a query for AAAA records of *siit*: *dns64* asks for A records then, and one of both would
    ask the other one again and again."""
    cdef const Query *parent = q.parent
    while parent != NULL and parent.generation == q.parent_generation:
        if parent.chain.handlers[parent.position].query == on_query:
            return True
        q = parent
        parent = q.parent
    return False


cdef Verdict on_reply(Handler *self, Query *q) noexcept nogil:
    """What a client gets over TCP may well have A records."""
    return UP if q.reply.flags & FLAG_TC or q.reply.overflow else synthesis_ask(self, q)


cdef Verdict on_resume(Handler *self, Query *q) noexcept nogil:
    """The code is that of the question for AAAA records. Where none of them can be translated, the reply of the handlers below stays."""
    cdef const Reply *six = synthesis_reply(q)
    cdef const Siit *siit = <const Siit *>self.state
    if six == NULL:
        query_fail(q, RCODE_SERVFAIL, b"siit: upstream lookup returned no response")
        return UP
    if six.rcode == RCODE_NOERROR and not synthesis_is_possible(&siit.synthesis, six):
        return UP
    synthesis_copy(q, six, six.rcode, six.flags & (FLAG_AA | FLAG_RA | FLAG_TC))
    if six.rcode == RCODE_NOERROR:
        synthesis_translate(self, q)
    return UP


cdef bint translate(const Synthesis *self, const uint8_t *address, uint8_t *out) noexcept nogil:
    """The address's own one, before that which is in it (RFC 7757 3.3.2). An IPv4-mapped address becomes none."""
    cdef const Siit *siit = <const Siit *>self
    cdef Address six
    cdef uint32_t number
    address_from_octets(&six, address)
    if six.family == 4:
        return False
    number = find_mapped(siit.mapped, &six) if siit.mapped != NULL else 0
    if number:
        memcpy(out, &siit.four[number], 4)
        return True
    if memcmp(address, siit.prefix, siit.length) or address[RESERVED_OCTET]:
        return False
    extract_ipv4(siit.length, address, out)
    return True


cdef uint32_t find_mapped(const Prefixes *mapped, const Address *six) noexcept nogil:
    """The number of an address; 0: it has none."""
    cdef PrefixKey key
    cdef const PrefixNode *node = prefixes_first(mapped, six, &key)
    while node != NULL and node.value == 0:
        node = prefixes_next(mapped, node, &key)
    return node.value if node != NULL else 0


cdef Metric TRANSLATED = Metric("coredns_siit_requests_translated_total", "Counter of DNS requests translated by siit.", "counter", ("server",))


cdef class SiitHandler(SynthesisHandler):
    cdef Siit siit
    cdef PrefixTree tree

    def __init__(self, str name, bytes prefix not None, dict mapped not None):
        cdef uint32_t number = 0
        handler_init(self)
        SynthesisHandler.__init__(self, name)
        if not 4 <= len(prefix) <= 12:
            raise ValueError("the prefix must have 4 to 12 octets")
        memcpy(self.siit.prefix, <const uint8_t *>prefix, len(prefix))
        self.siit.length = <uint32_t>len(prefix)
        if mapped:
            self.tree = PrefixTree({(six, 128): place for place, six in enumerate(mapped, 1)})
            self.siit.mapped = &self.tree.prefixes
            self.siit.four = <uint32_t *>calloc(len(mapped) + 1, sizeof(uint32_t))
            if self.siit.four == NULL:
                raise MemoryError
            for four in mapped.values():
                number += 1
                memcpy(&self.siit.four[number], <const uint8_t *><bytes>four, 4)
        self.siit.synthesis.translate = translate
        self.begin(&self.siit.synthesis, TYPE_A, TRANSLATED)
        self.handler.query = on_query
        self.handler.reply = on_reply
        self.handler.resume = on_resume

    def __dealloc__(self):
        free(self.siit.four)
