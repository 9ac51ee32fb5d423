"""Messages in requests of DNS over HTTP (RFC 8484), the same in HTTP/1.1, HTTP/2 and HTTP/3; and how long a reply may be kept."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdio cimport snprintf
from fastdns.walk.query cimport Query

cdef enum:
    BODY_MAX = 65536                # octets of a body of DNS over HTTPS, and of a GET's message before it was encoded
    ENCODED_MAX = 87382             # the same in base64

# Whether a path is the one that there is.
cdef bint doh_is_path(const uint8_t *octets, uint32_t length) noexcept nogil
# The parameter `dns` of a GET's query, encoded. False: *wrong says why.
cdef bint doh_find_message(const uint8_t *query, uint32_t length, const uint8_t **message, uint32_t *message_length, const char **wrong) noexcept nogil
# Its octets (base64url without padding, RFC 4648 5) into `out`, at most MESSAGE_MAX: how many, or -1 and *wrong says why.
cdef int doh_decode_message(const uint8_t *octets, uint32_t length, uint8_t *out, const char **wrong) noexcept nogil
# Seconds that a reply may be kept (RFC 8484 5.1): its lowest TTL, as CoreDNS says it.
cdef uint32_t doh_max_age(const Query *q) noexcept nogil

cdef inline bint doh_is_private(const Query *q) noexcept nogil:
    """Whether caches between client and server must not keep the reply: another client could get another one (RFC 9111 5.2.2.7)."""
    return q.tailored != 0

cdef enum:
    CACHE_CONTROL_MAX = 28      # octets of the value of Cache-Control, with a final zero

cdef inline int doh_cache_control(char *out, bint is_private, uint32_t max_age) noexcept nogil:
    """Writes it with a final zero; returns its length."""
    return snprintf(out, CACHE_CONTROL_MAX, b"private, max-age=%u" if is_private else b"max-age=%u", max_age)
