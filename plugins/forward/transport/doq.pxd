"""DNS over QUIC (RFC 9250): connections, and a stream for each question and its reply."""
from fastdns.plugins.forward._upstream cimport Transport

cdef const Transport *DOQ_TRANSPORT
