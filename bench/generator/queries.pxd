"""Query messages and what is known of the right replies, packed in C memory that all threads of a run read."""
from libc.stdint cimport int16_t, int32_t, uint8_t, uint16_t, uint32_t
from fastdns._wire cimport Message

cdef struct Rdata:                  # one record that an answer must have
    const uint8_t *octets           # owned by the set
    uint16_t length
    uint16_t names                  # offset of the names in it, which are compared without case (RFC 4343),
    uint16_t names_end              # and of what follows them

cdef struct PackedQuery:
    const uint8_t *message          # owned by the set; the id is 0
    uint16_t length
    uint16_t question_length        # octets of the question section
    uint16_t type
    int16_t rcode                   # that the reply must have; -1: any
    int32_t answers                 # how many records of its type the answer must have; -1: any
    const Rdata *expected           # owned by the set

# Are the records of a parsed reply those that are expected? A truncated reply may lack some. 1, 0, or -1 when it is malformed.
cdef int query_check_answers(const PackedQuery *query, const uint8_t *packet, uint32_t length, const Message *message) noexcept nogil


cdef class QuerySet:
    cdef readonly str label
    cdef PackedQuery *queries
    cdef uint32_t count
    cdef uint32_t *order            # indexes of queries
    cdef uint32_t length            # of order
    cdef uint32_t *bursts           # how many consecutive entries of order leave together; NULL: one each
    cdef uint32_t burst_count
    cdef readonly bint edns
    cdef uint8_t *octets
    cdef size_t octet_count
    cdef Rdata *rdata
    cdef size_t rdata_count

    cdef int allocate(self, size_t octets, size_t records) except -1
    cdef int pack(self, questions, list wires, uint16_t udp_size, bint do, bint rd) except -1
    cdef int put_in_order(self, order, bursts) except -1
