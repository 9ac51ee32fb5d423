"""From what a plugin's `serve` returned to the request that goes back to the worker.

The plugin's own code runs while a result is read: attributes and methods of what it returned. Nobody may touch the request meanwhile, and no value is used
before it is of an exact type and within its bounds. What is then applied runs no code of the plugin.
"""
from libc.stdint cimport uint8_t, uint16_t
from fastdns.walk.query cimport DROPPED, Verdict
from fastdns.executor.request cimport PluginQuery
from fastdns.executor.verdicts cimport Terms, Verdicts

cdef class Outcome:                 # a result that was read
    cdef Verdict verdict
    cdef uint16_t rcode             # FAILED
    cdef bytes text                 # FAILED: of the error
    cdef bytes message              # ANSWERED
    cdef bint verbatim              # the message's RD and CD are its own
    cdef Terms terms                # it is to be remembered; else None

# Reads what a plugin returned (query.Result). Raises whatever the plugin's code does, TypeError for what is no result, ValueError for values out of bounds.
cdef Outcome result_read(PluginQuery query, result, str plugin)
# Puts the outcome into the query's request, which the executor has, and what is to be remembered into `verdicts`. Raises MemoryError.
cdef Verdict outcome_apply(PluginQuery query, Outcome outcome, Verdicts verdicts, str plugin) except? DROPPED
# An error of a plugin: a line in its log, which is returned, and a count.
cdef object result_report(str plugin, str text)
