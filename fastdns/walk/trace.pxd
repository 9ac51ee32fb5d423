"""The trace that a client has put its query into: what fields of HTTP and metadata of gRPC say of it (fastdns/engine/http/trace)."""
from libc.stdint cimport uint8_t, uint64_t

cdef enum TraceSampling:
    TRACE_UNDECIDED                 # the client leaves it to us whether its trace is recorded
    TRACE_SAMPLED
    TRACE_NOT_SAMPLED

cdef struct TraceContext:
    uint64_t high                   # the trace's id, of 64 or 128 bits; 0, 0: the client only says whether it is recorded
    uint64_t low
    uint64_t span                   # the client's span: the parent of ours
    uint64_t parent                 # the parent of the client's span; 0: none, or not known
    uint8_t sampling                # TraceSampling
    uint8_t format                  # TraceFormat of engine/http/trace; 0: no field has come
    uint8_t malformed               # a value is: nothing of it counts
