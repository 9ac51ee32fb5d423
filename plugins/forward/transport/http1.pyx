"""Responses of HTTP/1.1. The contract is in transport/http1.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.string cimport memset
from fastdns.api.http cimport HEAD_COMPLETE, HEAD_INCOMPLETE, HttpHead, http_join_chunks, http_lacks_end, http_parse_status, http_scan_chunks
from fastdns.plugins.forward._upstream cimport ResponsePlace

cdef enum:
    HEAD_MAX = 65536
    BODY_MAX = 65536


cdef int64_t fail(Response *response, const char *failure) noexcept nogil:
    response.failure = failure
    return -1


cdef int64_t http1_read(uint8_t *octets, uint32_t size, bint ended, ResponsePlace *place, Response *response) noexcept nogil:
    cdef HttpHead head
    cdef uint16_t status = 0
    cdef int parsed
    memset(response, 0, sizeof(Response))
    if place.chunked:
        return read_chunks(octets, size, place, response)
    while True:
        if place.scanned and http_lacks_end(octets + place.head, size - place.head, place.scanned):
            parsed = HEAD_INCOMPLETE
        else:
            parsed = http_parse_status(octets + place.head, size - place.head, &head, &status)
        if parsed == HEAD_INCOMPLETE:
            place.scanned = size - place.head
            return 0 if place.scanned <= HEAD_MAX else fail(response, b"https: header too long")
        if parsed != HEAD_COMPLETE:
            return fail(response, b"https: malformed response")
        if status // 100 != 1:
            break
        place.head += head.length           # the response follows
        place.scanned = 0
    if head.chunked:
        place.head += head.length
        place.chunked = 1
        place.close = head.close
        return read_chunks(octets, size, place, response)
    return read_body(octets, place.head + head.length, size, ended, &head, place, response)


cdef int64_t read_chunks(uint8_t *octets, uint32_t size, ResponsePlace *place, Response *response) noexcept nogil:
    cdef uint32_t before = place.head, total = 0
    cdef int parsed = http_scan_chunks(octets + before, size - before, BODY_MAX, &place.chunks, &total)
    response.body = octets + before
    response.size = place.chunks.body
    response.close = place.close
    if parsed < 0:
        return fail(response, b"https: body too long" if response.size > BODY_MAX else b"https: malformed chunk")
    if parsed == 0:
        return 0
    http_join_chunks(octets + before)
    memset(place, 0, sizeof(ResponsePlace))
    return before + total


cdef int64_t read_body(uint8_t *octets, uint32_t before, uint32_t size, bint ended, const HttpHead *head, ResponsePlace *place,
                       Response *response) noexcept nogil:
    """A body with its length, or to the end of the connection. The head is parsed again when more has come: reading it does not depend on the body."""
    response.close = head.close
    response.body = octets + before
    place.scanned = 0
    if head.content_length > BODY_MAX or head.content_length < 0 and size - before > BODY_MAX:
        return fail(response, b"https: body too long")
    if head.content_length < 0:
        response.close = True
        response.size = size - before
        if not ended:
            return 0
    elif size - before < head.content_length:
        return 0
    else:
        response.size = <uint32_t>head.content_length
    memset(place, 0, sizeof(ResponsePlace))
    return before + response.size
