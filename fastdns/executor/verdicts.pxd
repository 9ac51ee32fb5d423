"""The verdicts of one plugin that are cached (verdict_cache): what workers apply, and what the plugin's thread adds and withdraws."""
from libc.stdint cimport uint16_t, uint32_t, int64_t
from fastdns.executor.verdict_cache cimport CachedVerdict, VerdictTable
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

cdef class Verdicts:
    cdef VerdictTable table
    cdef object lock            # of those that write, or read without being workers
    cdef object __weakref__
    cdef uint32_t entries       # cells of metrics
    cdef uint32_t evictions
    cdef bint holds(self, const Name *name, uint16_t qtype, uint16_t qclass, const Address *client)
    cpdef bint put(self, PluginQuery query, remembered, bytes message=*, int64_t now=*) except -1
    cpdef int forget(self, suffix=*, client=*) except -1
