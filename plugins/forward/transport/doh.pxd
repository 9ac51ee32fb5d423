"""DNS over HTTPS (RFC 8484): questions as requests, and their replies out of responses, over HTTP/2 and HTTP/1.1."""
from fastdns.plugins.forward._upstream cimport Framing, HttpService

cdef const HttpService *DOH_SERVICE
# One request at a time, for servers that take no HTTP/2 (RFC 9112).
cdef const Framing *HTTP1_FRAMING
