"""DNS over QUIC: a query a stream (RFC 9250)."""
from fastdns.engine.quic.state cimport QuicProtocol

cdef enum DoqStatus:                # what is counted; the error codes of RFC 9250 4.3 are 0x0 and 0x2
    DOQ_NO_ERROR
    DOQ_PROTOCOL_ERROR

cdef QuicProtocol doq_protocol
