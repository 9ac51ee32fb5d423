"""DNS over TCP (RFC 7766), with TLS below it or not: each message has its length in two octets before it. Pipelined, replies leave as they come."""
from fastdns.engine.io.connection cimport StreamProtocol

cdef enum:
    OUTSTANDING_MAX = 64            # queries of a connection under way

cdef StreamProtocol dns_framing
