"""Heads of HTTP/1.1 (RFC 9112), of requests and of responses: the one parser of them."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t

cdef enum:
    HEAD_INCOMPLETE = 0
    HEAD_COMPLETE = 200             # every other result is the status of the response that refuses the request

cdef struct HttpHead:               # all pointers into the octets that were parsed
    uint32_t length                 # octets of the head, with the empty line
    # ---- of a request ----
    const uint8_t *method
    uint32_t method_length
    const uint8_t *target
    uint32_t target_length
    # ---- of both ----
    uint32_t fields                 # octets of names and values, and 32 for each field
    uint8_t minor                   # of HTTP/1.x
    uint8_t close                   # the connection ends after the response
    uint8_t chunked                 # the body has chunks (7.1)
    uint8_t expects                 # 100-continue
    uint32_t hosts                  # fields `host`
    int64_t content_length          # octets; -1: unknown

cdef struct HttpChunks:             # of a body: the chunks that are whole
    uint32_t at                     # octets with their lines
    uint32_t body                   # octets without

# HEAD_INCOMPLETE while the octets may become a head, HEAD_COMPLETE, or 400, 501, 505.
cdef int http_parse_head(const uint8_t *octets, uint32_t size, HttpHead *head) noexcept nogil
# Whether the octets from `scanned` on, which had no end of a head when there were so many, still have none.
cdef bint http_lacks_end(const uint8_t *octets, uint32_t size, uint32_t scanned) noexcept nogil
# The head of a response, likewise: HEAD_INCOMPLETE, HEAD_COMPLETE, or what else it is none.
cdef int http_parse_status(const uint8_t *octets, uint32_t size, HttpHead *head, uint16_t *status) noexcept nogil
# The next field of a head that was parsed, without spaces around its value. *at: its beginning, then what this function has made of it; end: of the head.
# False: there are no more.
cdef bint http_next_field(const uint8_t **at, const uint8_t *end, const uint8_t **name, uint32_t *name_length, const uint8_t **value,
                          uint32_t *length) noexcept nogil
# The path of a target, with or without scheme and authority before it (3.2.2), and its query ("" for none). False: there is none.
cdef bint http_split_target(const uint8_t *target, uint32_t length, const uint8_t **path, uint32_t *path_length, const uint8_t **query,
                            uint32_t *query_length) noexcept nogil
# Finds the end of a chunked body: its octets with all chunk lines and trailers in *total, without in chunks.body. 1; 0: not all is here; -1: malformed, or
# more than `most`, as chunks.body says then. chunks: zeroed, or of the call before, with fewer octets of the same body.
cdef int http_scan_chunks(const uint8_t *octets, uint32_t size, uint32_t most, HttpChunks *chunks, uint32_t *total) noexcept nogil
# Moves the octets of a scanned body together at its beginning.
cdef void http_join_chunks(uint8_t *octets) noexcept nogil
# Whether octets are a word in whatever case; `word` is in lower case.
cdef bint http_is(const uint8_t *octets, uint32_t length, const char *word) noexcept nogil
# The value of a hexadecimal digit, or -1.
cdef int http_digit(uint8_t octet) noexcept nogil
