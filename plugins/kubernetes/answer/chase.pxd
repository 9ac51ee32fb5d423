"""Following aliases: ExternalName services (and slices of host names), inside the zone by itself and outside through the server."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.api.query cimport Handler, Verdict
from fastdns.plugins.kubernetes.answer.records cimport Ask, Candidates

cdef enum:
    LINKS_MAX = 10                  # aliases in a chain

cdef struct Target:
    const uint8_t *wire
    uint8_t length

cdef struct Frame:                  # a name whose aliases are followed; everything it points to is in the query's arena
    Frame *below
    const uint8_t *name
    uint8_t name_length
    uint8_t depth
    uint8_t next                    # target to be followed
    uint8_t count
    uint16_t mark                   # records before the alias that is followed now
    Target targets[1]

cdef struct Chase:                  # in the query's scratch
    Frame *top                      # in the query's arena

# The wire form of a host name; 0 when it is none. out has 256 octets.
cdef uint32_t from_text(const uint8_t *text, uint32_t length, uint8_t *out) noexcept nogil
# Follows the candidates met at the query's own name. PARKED, or ANSWERED when all that can be found is in the reply (maybe nothing).
cdef Verdict chase_begin(Handler *self, Ask *ask, Candidates *candidates) noexcept nogil
# The child of a parked chase is done.
cdef Verdict chase_resume(Handler *self, Ask *ask) noexcept nogil
