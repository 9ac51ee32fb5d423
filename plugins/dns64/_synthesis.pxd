"""Replies with addresses of one family that are made of those of the other one: what *dns64* (RFC 6147) and *siit* have in common.

The handlers below are asked first. If their reply has no address of the client's type, the server itself is asked for the other type, from the top, so that
the records come from wherever this name's come from, the cache first of all. That reply is the client's, with its addresses translated.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.api.metrics cimport Metric
from fastdns.api.query cimport Handler, NativeHandler, Query, Verdict
from fastdns.api.reply cimport Reply

# Writes what the rdata of `source` becomes into out; False: nothing does.
ctypedef bint (*synthesis_translate_func)(const Synthesis *self, const uint8_t *address, uint8_t *out) noexcept nogil

cdef struct Synthesis:              # of a handler: the first field of its state
    uint16_t wanted                 # type that clients ask for
    uint16_t wanted_size            # octets of its rdata
    uint16_t source                 # type whose records are translated
    uint16_t source_size
    uint8_t always                  # also where the name has records of `wanted`
    synthesis_translate_func translate
    uint32_t *translated            # metric cells by server label

# In the `query` hook. eligible: what the handler says of the query, besides its type and class.
cdef void synthesis_begin(Handler *self, Query *q, bint eligible) noexcept nogil
# In the `reply` hook: asks for `source` if the reply of the handlers below is to be replaced.
cdef Verdict synthesis_ask(Handler *self, Query *q) noexcept nogil
# In the `resume` hook: the reply to that. NULL: none came, because the question was dropped.
cdef const Reply *synthesis_reply(const Query *q) noexcept nogil
# Whether some record of its answer can be translated.
cdef bint synthesis_is_possible(const Synthesis *self, const Reply *found) noexcept nogil
# Makes `found` the query's reply, with this code and these flags. Its records stay as they are.
cdef void synthesis_copy(Query *q, const Reply *found, uint16_t rcode, uint16_t flags) noexcept nogil
# Translates the addresses in the query's answer. Those that become nothing go. Counts the query.
cdef void synthesis_translate(Handler *self, Query *q) noexcept nogil

# An IPv4 address behind a prefix of `length` octets, 4 to 12, and the other way round; octet 8 is none of them (RFC 6052 2.2).
cdef void embed_ipv4(const uint8_t *prefix, uint32_t length, const uint8_t *four, uint8_t *six) noexcept nogil
cdef void extract_ipv4(uint32_t length, const uint8_t *six, uint8_t *four) noexcept nogil

cdef class SynthesisHandler(NativeHandler):
    cdef Metric metric
    # The subclass's own state, whose `translate` is set; types and hooks follow from `wanted`. Sets all of the handler but its `query` and `resume` hooks.
    cdef int begin(self, Synthesis *state, uint16_t wanted, Metric metric) except -1
