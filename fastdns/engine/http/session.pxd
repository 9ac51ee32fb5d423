"""HTTP/2 (RFC 9113) by libnghttp2: a session a connection, with limits to what a client may cost."""
from fastdns.engine.io.connection cimport StreamProtocol

cdef StreamProtocol http2_protocol
