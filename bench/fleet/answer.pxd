"""Transfers as a secondary takes them up: message by message, in pieces that follow each other (RFC 1995 4, RFC 5936 2.2)."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.plugins.transfer._digest cimport ContentDigest, DIGEST_OCTETS

cdef enum Outcome:
    MORE                            # the transfer goes on
    APPLIED                         # `version` is another one now
    CURRENT                         # the SOA alone: nothing has changed
    REFUSED                         # an rcode that is not NOERROR
    MALFORMED
    GAP                             # differences that do not begin with the version held, or do not follow each other
    OTHER_CONTENT                   # the records do not have the digest that comes with them

cdef struct Version:                # what a secondary holds
    uint32_t serial
    uint8_t held                    # false: nothing
    uint8_t digested                # the zone says its digest
    uint8_t digest[DIGEST_OCTETS]

cdef struct Answer:                 # of one secondary
    Version version
    Version next                    # as far as the transfer has come
    uint32_t serial                 # that it leads to
    uint8_t part
    uint8_t whole                   # all records, not differences
    uint8_t checked                 # the digest of all records is computed
    ContentDigest content           # where it is: of the version held; of the next one while a transfer goes on
    ContentDigest before            # of the version held, while a transfer goes on
    uint32_t records                # of this transfer
    # Is called for each A record that is added.
    void (*added)(void *data, const uint8_t *address) noexcept nogil
    void *data

# A transfer is asked for: what comes next is its first message.
cdef void answer_begin(Answer *answer) noexcept nogil
# One message of a transfer. After another outcome than MORE the transfer is over; but for APPLIED the version stays.
cdef Outcome answer_take(Answer *answer, const uint8_t *message, uint32_t length) noexcept nogil
# The serial of the first SOA of an answer section; False where there is none.
cdef bint answer_serial(const uint8_t *message, uint32_t length, uint32_t *serial) noexcept nogil
