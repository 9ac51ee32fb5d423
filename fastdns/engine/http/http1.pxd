"""HTTP/1.1 (RFC 9112): one request after the other. A client in clear text that begins with HTTP/2's preface goes over to HTTP/2."""
from fastdns.engine.io.connection cimport StreamProtocol

cdef StreamProtocol http1_protocol
