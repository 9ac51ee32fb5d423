"""Zone transfers out: what a provider (kubernetes, file...) implements, and what it gets ready made.

A provider is a handler of the same block, or the object in its `plugin`, with a method

    def transfer(self, zone: bytes, serial: int | None) -> Transfer | None

It is called on a thread of the control side with the GIL, never on a worker, and may take its time (the query is parked). zone is
lower-case wire form; serial is the client's for IXFR, None for AXFR. None: not authoritative for exactly this zone, ask the next
provider. An exception is SERVFAIL. The records are those of one moment: SOA first, SOA last. A client that is up to date (IXFR with
the zone's serial) gets a source of one SOA and nothing else.

Ready made, from Python: `Transfer.of_records(rows)` copies rows of (owner, type, ttl, rdata) in wire form; `Transfer.of_index(index, serial)` takes a
snapshot of a zone in an Index. Native: a `TransferSource` of one's own, handed over with `transfer_of`.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t

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

# A source as the object that `transfer` returns; the object owns it until the transfer begins.
cdef object transfer_of(TransferSource *source)

cdef class Transfer:
    cdef TransferSource *source
    cdef TransferSource *take(self)
