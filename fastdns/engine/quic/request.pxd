"""Requests of DNS over HTTP/3 (RFC 8484), as octets in and a message or a status out; and how long a reply may be kept."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.walk.query cimport Query

cdef enum:
    BODY_MAX = 65536                # octets of a POST's body, and of a GET's message before it was encoded

cdef enum RequestMethod:
    METHOD_OTHER
    METHOD_GET
    METHOD_POST

cdef RequestMethod request_method(const uint8_t *octets, uint32_t length) noexcept nogil
# Whether a target's path is the one that there is.
cdef bint request_is_for_dns(const uint8_t *target, uint32_t length) noexcept nogil
# The message of a GET, from its target, into `out` with room for MESSAGE_MAX octets: its length, or -1 and what is wrong.
cdef int request_decode(const uint8_t *target, uint32_t length, uint8_t *out, const char **wrong) noexcept nogil
# Seconds that a reply may be kept (RFC 8484 5.1), as CoreDNS says it.
cdef uint32_t reply_max_age(const Query *q) noexcept nogil
