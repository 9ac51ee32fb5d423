"""The verdicts of one plugin that are cached (verdict_cache): what workers apply, and what the plugin's thread adds and withdraws."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from fastdns.executor.verdict_cache cimport CachedVerdict, Prefix, VerdictTable
from fastdns.system.address cimport Address
from fastdns.walk.query cimport Query, Verdict
from fastdns.executor.request cimport PluginQuery
from fastdns._wire cimport Name
from fastdns.protocol.header cimport OPCODE_QUERY, flags_opcode

cdef enum:
    MEMORY = 65536              # the most verdicts, where the plugin gives no number

cdef inline bint flags_remember(uint16_t flags) noexcept nogil:
    """Verdicts are for queries alone, not for a NOTIFY or an UPDATE of the same name."""
    return flags_opcode(flags) == OPCODE_QUERY

# Applies it to a query: NEXT, ANSWERED, FAILED or DROPPED, as a handler's query hook returns them.
cdef Verdict verdicts_apply(CachedVerdict *cached, Query *q) noexcept nogil

cdef class Terms:               # of a query.Remembered, read: exact types within their bounds
    cdef double seconds
    cdef bytes suffix           # name in wire form; None: the name asked alone
    cdef str suffix_text
    cdef bint all_types
    cdef Prefix client          # family 0: all clients
    cdef str client_text
    cdef uint32_t counter       # cell of a counter; 0: none
    cdef bytes owners           # of a Reply: for each record 1 where its owner is the name asked; else None
    cdef uint8_t verdict        # NEXT, DROPPED, FAILED or ANSWERED
    cdef uint16_t rcode         # FAILED
    cdef bytes text             # FAILED

# Reads a query.Remembered; the plugin's own code may run. Raises TypeError and ValueError.
cdef Terms terms_read(remembered)

cdef class Verdicts:
    cdef VerdictTable table
    cdef object lock            # of those that write, or read without being workers
    cdef object __weakref__
    cdef uint32_t entries       # cells of metrics
    cdef uint32_t evictions
    cdef bint holds(self, const Name *name, uint16_t qtype, uint16_t qclass, const Address *client)
    # Remembers a verdict on a query; runs no code of the plugin. See verdicts.pyi for `put`, which reads the terms first.
    cdef bint keep(self, PluginQuery query, Terms terms, bytes message, int64_t now=*) except -1
    cpdef bint put(self, PluginQuery query, remembered, bytes message=*, int64_t now=*) except -1
    cpdef int forget(self, suffix=*, client=*) except -1
