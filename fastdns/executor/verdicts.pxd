"""Verdicts that Python plugins gave for a scope and a time, as workers apply them and as the lane remembers them; the tables are _memos'."""
from libc.stdint cimport uint16_t, uint32_t, int64_t
from fastdns.executor.verdict_cache cimport Memo, MemoTable
from fastdns.system.address cimport Address
from fastdns.walk.query cimport Query, Verdict
from fastdns.executor.request cimport PluginQuery
from fastdns._wire cimport Name
from fastdns.protocol.header cimport OPCODE_QUERY, flags_opcode

cdef enum:
    MEMORY = 65536              # verdicts of a plugin that does not say how many

cdef inline bint flags_remember(uint16_t flags) noexcept nogil:
    """Only queries are remembered and answered so: a NOTIFY or an UPDATE of the same name is something else."""
    return flags_opcode(flags) == OPCODE_QUERY

# Applies it to a query: NEXT, ANSWERED, FAILED or DROPPED, as a handler's query hook returns them.
cdef Verdict verdicts_apply(Memo *memo, Query *q) noexcept nogil

cdef class Verdicts:
    cdef MemoTable table
    cdef object lock            # of those that write, or read without being workers
    cdef object __weakref__
    cdef uint32_t entries       # cells of metrics
    cdef uint32_t evictions
    cdef bint holds(self, const Name *name, uint16_t qtype, uint16_t qclass, const Address *client)
    cpdef bint put(self, PluginQuery query, remembered, bytes message=*, int64_t now=*) except -1
    cpdef int forget(self, suffix=*, client=*) except -1
