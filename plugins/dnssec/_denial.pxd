"""NSEC records that are made for the query: "black lies", which say that the name is there and has neither the type nor anything behind it."""
from libc.stdint cimport uint16_t, uint32_t
from fastdns.api.query cimport Query

cdef enum DenialKind:
    DENIAL_APEX                 # of a type at a zone's own name
    DENIAL_NAME                 # of a type, or of the name
    DENIAL_CUT                  # of DS; the types are those that a delegation may have

# Adds the NSEC record for the query's name to the reply's authority section: the next name is the first one below it, or for a delegation
# the first one behind its label. Returns its place in the reply's table, -1 when the next name would be too long or memory is out.
cdef int denial_add(Query *q, DenialKind kind, bint delegation, uint32_t ttl) noexcept nogil
