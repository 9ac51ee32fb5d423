"""Zone transfers out: what a provider (kubernetes, file...) implements, and what it gets ready made.

A provider is a handler of the same block, or the object in its `plugin`, with a method

    def transfer(self, zone: bytes, serial: int | None) -> Transfer | None

It is called on a thread of the control side with the GIL, never on a worker, and may take its time (the query is parked). zone is
lower-case wire form; serial is the client's for IXFR, None for AXFR. None: not authoritative for exactly this zone, ask the next
provider. An exception is SERVFAIL. The records are those of one moment: SOA first, SOA last. A client that is up to date (IXFR with
the zone's serial) gets a source of one SOA and nothing else.

Ready made, from Python: `Transfer.of_records(rows)` copies rows of (owner, type, ttl, rdata) in wire form; `Transfer.of_index(index, serial)` takes a
snapshot of a zone in an Index. Native: a `TransferSource` (_source.pxd) of one's own, given by `transfer_of`.
"""
from fastdns.plugins.transfer._source cimport TransferSource

# A source as the object that `transfer` returns; the object owns it until the transfer begins.
cdef object transfer_of(TransferSource *source)

cdef class Transfer:
    cdef TransferSource *source
    cdef TransferSource *take(self)
