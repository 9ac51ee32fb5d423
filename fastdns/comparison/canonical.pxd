"""What of a reply is compared: response code, the bits AA and TC, and the records of each section as a set.

Left aside are TTLs, the order of records, the case of names, OPT and TSIG; of signatures (RRSIG) what differs between two signings of the same
records: original TTL, times and signature; and the serial of the SOA record in an authority section, which tells how long a negative answer may be
kept, and with *kubernetes* is the time of a server's own last change.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef enum:
    SECTIONS = 3                # answer, authority, additional

cdef struct Digest:             # of a reply
    uint16_t rcode              # with the bits of OPT
    uint16_t flags              # FLAG_AA, FLAG_TC
    # Sums of the keyed hashes of canonical records: equal where the records are, in any order.
    uint64_t sections[SECTIONS]

# Fills digest, of this process's key. 0, or -1: the message is malformed.
cdef int digest_reply(const uint8_t *message, uint32_t length, Digest *digest) noexcept nogil

cdef inline bint digest_equal(const Digest *a, const Digest *b) noexcept nogil:
    return (a.rcode == b.rcode and a.flags == b.flags and a.sections[0] == b.sections[0] and a.sections[1] == b.sections[1]
            and a.sections[2] == b.sections[2])
