"""The Python lane: queries that a Python plugin wants wait in a bounded queue; a thread of its own drains it, so workers never meet the GIL.

A `Ticket` carries what the plugin may look at and, on the way back, its verdict. It is the lane's until it is posted to the worker; the query it speaks
of is touched by its worker only, and a ticket whose query is gone (deadline, eviction) is thrown away there.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from fastdns.walk.query cimport Handler, Mail, Query, Verdict
from fastdns._mux cimport NativeHandler
from fastdns.executor.verdict_cache cimport MemoTable
from fastdns.executor.verdicts cimport Verdicts
from fastdns.index.zone_list cimport ZoneList, Zones

cdef enum:
    TICKETS_MAX = 2048              # queries that may wait for Python at once; one more is answered SERVFAIL

cdef struct PythonHandlerState:  # Handler.state
    void *owner
    const Zones *zones
    int64_t deadline
    uint32_t queries
    uint32_t rejects
    uint32_t deadlines
    uint32_t hits
    MemoTable *remembered        # of the handler's Verdicts
    uint32_t waiting                # atomic: tickets under way, so that the handler outlives them

cdef class PythonHandler(NativeHandler):
    cdef PythonHandlerState state
    cdef readonly object serve      # the plugin's method
    cdef readonly bint waits        # it is a coroutine function
    cdef readonly object zones      # ZoneList or None
    cdef ZoneList zone_list
    cdef readonly Verdicts verdicts  # what it said for more than one query
    cdef readonly int64_t deadline  # ns
