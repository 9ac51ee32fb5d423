"""Responses of HTTP/1.1. The contract is in _http1.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.string cimport memset
from fastdns.api.http cimport HEAD_COMPLETE, HEAD_INCOMPLETE, HttpChunks, HttpHead, http_join_chunks, http_parse_status, http_scan_chunks

cdef enum:
    HEAD_MAX = 65536
    BODY_MAX = 65536


cdef int64_t fail(Response *response, const char *failure) noexcept nogil:
    response.failure = failure
    return -1


cdef int64_t http1_read(uint8_t *octets, uint32_t size, bint ended, Response *response) noexcept nogil:
    cdef HttpHead head
    cdef uint16_t status = 0
    cdef HttpChunks chunks
    cdef uint32_t before = 0, total = 0
    cdef int parsed
    memset(response, 0, sizeof(Response))
    while True:
        parsed = http_parse_status(octets + before, size - before, &head, &status)
        if parsed == HEAD_INCOMPLETE:
            return 0 if size - before <= HEAD_MAX else fail(response, b"https: header too long")
        if parsed != HEAD_COMPLETE:
            return fail(response, b"https: malformed response")
        before += head.length
        if status // 100 != 1:              # 1xx: the response follows
            break
    response.close = head.close
    response.body = octets + before
    if head.chunked:
        memset(&chunks, 0, sizeof(chunks))
        parsed = http_scan_chunks(octets + before, size - before, BODY_MAX, &chunks, &total)
        response.size = chunks.body
        if parsed < 0:
            return fail(response, b"https: body too long" if response.size > BODY_MAX else b"https: malformed chunk")
        if parsed == 0:
            return 0
        http_join_chunks(octets + before)
        return before + total
    if head.content_length > BODY_MAX or head.content_length < 0 and size - before > BODY_MAX:
        return fail(response, b"https: body too long")
    if head.content_length < 0:
        response.close = True
        response.size = size - before
        return size if ended else 0
    if size - before < head.content_length:
        return 0
    response.size = <uint32_t>head.content_length
    return before + response.size
