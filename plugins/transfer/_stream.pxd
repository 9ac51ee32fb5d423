"""The messages of a transfer, written as the connection takes them."""
from libc.stdint cimport uint32_t
from fastdns.api.query cimport Query, Stream
from fastdns.plugins.transfer._encoded cimport Encoded
from fastdns.plugins.transfer._source cimport TransferRecord, TransferSource

# A stream that answers q with the SOA (copied), the record that was read after it (borrowed from the source), and what the source
# still has; it owns the source, and the place. NULL: no memory (the source is closed).
cdef Stream *stream_make(Query *q, TransferSource *source, const TransferRecord *soa, const TransferRecord *second, int place) noexcept nogil
# The same with messages that are encoded, of which it owns a reference; place: of `streams`, or NO_PLACE. NULL: no memory (both are given back).
cdef Stream *stream_encoded(Query *q, Encoded *encoded, int place) noexcept nogil

# Tells that the client has the version that serves.
cdef void stream_log_current(Query *q, uint32_t serial) noexcept nogil
