"""HTTP/2 (RFC 9113) to an upstream, by libnghttp2: one session a connection, one stream a question."""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t
from fastdns.api.http cimport nghttp2_nv
from fastdns.plugins.forward._upstream cimport Framing, HttpStream

cdef const Framing *HTTP2_FRAMING

# A field of a request. Its octets are constant.
cdef nghttp2_nv http2_field(const char *name, const char *value) noexcept nogil
# For HttpService.ask: sends these fields, then stream.prefix and with `body` the exchange's request. -1: out of memory.
cdef int http2_submit(HttpStream *stream, const nghttp2_nv *fields, size_t count, bint body) noexcept nogil
