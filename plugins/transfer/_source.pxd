"""Where the records of one transfer come from."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns.api.names cimport NAME_MAX

cdef enum:
    SOA_OCTETS = NAME_MAX + 2 * NAME_MAX + 20   # owner and rdata at most
    RECORDS_OCTETS = 63000      # of one message, unless a single record takes more

cdef struct TransferRecord:     # class IN; spans are borrowed until the next call of next
    const uint8_t *owner        # uncompressed wire form
    const uint8_t *rdata
    uint32_t ttl
    uint16_t type
    uint16_t rdlength
    uint8_t owner_length

cdef struct TransferSource:     # the records of one transfer; begin your own struct with it
    # 1 with the next record in out, 0 at the end, -1 to break the connection. Called by one thread at a time (the transfer thread, then a
    # worker), without the GIL. What it reads must be its own or counted (index_snapshot): nothing borrowed outlives a batch.
    int (*next)(TransferSource *source, TransferRecord *out) noexcept nogil
    # Frees everything, the source too. Called once, on any thread.
    void (*close)(TransferSource *source) noexcept nogil
