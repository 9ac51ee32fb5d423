"""The native handler of dns64 (RFC 6147): on the way up, a reply without addresses is replaced by one that is made of the A records."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy
from fastdns.api.metrics cimport Metric
from fastdns.api.query cimport NEXT, UP, Handler, Query, Verdict, handler_init, query_fail
from fastdns.api.reply cimport Reply
from fastdns.api.wire cimport FLAG_TC, RCODE_NOERROR, RCODE_SERVFAIL, TYPE_AAAA
from fastdns.plugins.dns64._synthesis cimport (Synthesis, SynthesisHandler, embed_ipv4, synthesis_begin, synthesis_copy, synthesis_reply,
                                               synthesis_translate)

cdef struct Dns64:
    Synthesis synthesis         # first
    uint8_t prefix[12]
    uint32_t length             # octets of it
    uint8_t allow_ipv4


cdef Verdict on_query(Handler *self, Query *q) noexcept nogil:
    synthesis_begin(self, q, (<const Dns64 *>self.state).allow_ipv4 or q.client.family != 4)
    return NEXT


cdef Verdict on_resume(Handler *self, Query *q) noexcept nogil:
    """Whatever became of the question for A records, the code is NOERROR."""
    cdef const Reply *four = synthesis_reply(q)
    if four == NULL:
        query_fail(q, RCODE_SERVFAIL, b"the question for A records was dropped")
        return UP
    synthesis_copy(q, four, RCODE_NOERROR, four.flags & FLAG_TC)
    synthesis_translate(self, q)
    return UP


cdef bint translate(const Synthesis *self, const uint8_t *address, uint8_t *out) noexcept nogil:
    cdef const Dns64 *dns64 = <const Dns64 *>self
    embed_ipv4(dns64.prefix, dns64.length, address, out)
    return True


cdef Metric TRANSLATED = Metric("coredns_dns64_requests_translated_total", "Counter of DNS requests translated by dns64.", "counter", ("server",))


cdef class Dns64Handler(SynthesisHandler):
    cdef Dns64 dns64

    def __init__(self, str name, bytes prefix not None, bint translate_all, bint allow_ipv4):
        handler_init(self)
        SynthesisHandler.__init__(self, name)
        if not 4 <= len(prefix) <= 12:
            raise ValueError("the prefix must have 4 to 12 octets")
        memcpy(self.dns64.prefix, <const uint8_t *>prefix, len(prefix))
        self.dns64.length = <uint32_t>len(prefix)
        self.dns64.allow_ipv4 = allow_ipv4
        self.dns64.synthesis.always = translate_all
        self.dns64.synthesis.translate = translate
        self.begin(&self.dns64.synthesis, TYPE_AAAA, TRANSLATED)
        self.handler.query = on_query
        self.handler.resume = on_resume
