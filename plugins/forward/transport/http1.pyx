"""Responses of HTTP/1.1. The contract is in transport/http1.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.string cimport memset
from fastdns.api.http cimport HEAD_COMPLETE, HEAD_INCOMPLETE, HttpHead, http_join_chunks, http_lacks_end, http_parse_status, http_scan_chunks
from fastdns.plugins.forward._upstream cimport ResponsePlace

cdef enum:
    HEAD_MAX = 65536                # octets of a response's head and of those of 1xx before it
    BODY_MAX = 65536


cdef int64_t fail(Response *response, const char *failure) noexcept nogil:
    response.failure = failure
    return -1


cdef int64_t exceed(Response *response, const char *failure) noexcept nogil:
    response.too_long = True
    return fail(response, failure)


cdef int64_t http1_read(uint8_t *octets, uint32_t size, bint ended, ResponsePlace *place, Response *response) noexcept nogil:
    cdef HttpHead head
    cdef uint16_t status = 0
    cdef int parsed
    memset(response, 0, sizeof(Response))
    if place.chunked:
        return read_chunks(octets, size, place, response)
    if place.sized:
        return read_body(octets, size, ended, place, response)
    while True:
        if place.scanned and http_lacks_end(octets + place.head, size - place.head, place.scanned):
            parsed = HEAD_INCOMPLETE
        else:
            parsed = http_parse_status(octets + place.head, size - place.head, &head, &status)
        if parsed == HEAD_INCOMPLETE:
            place.scanned = size - place.head
            return 0 if size <= HEAD_MAX else exceed(response, b"https: header too long")
        if parsed != HEAD_COMPLETE:
            return fail(response, b"https: malformed response")
        place.head += head.length
        place.scanned = 0
        if place.head > HEAD_MAX:
            return exceed(response, b"https: header too long")
        if status // 100 != 1:
            break
    place.close = head.close
    if head.chunked:
        place.chunked = 1
        return read_chunks(octets, size, place, response)
    place.sized = 1
    place.length = head.content_length
    return read_body(octets, size, ended, place, response)


cdef int64_t read_chunks(uint8_t *octets, uint32_t size, ResponsePlace *place, Response *response) noexcept nogil:
    cdef uint32_t before = place.head, total = 0
    cdef int parsed = http_scan_chunks(octets + before, size - before, BODY_MAX, &place.chunks, &total)
    response.body = octets + before
    response.size = place.chunks.body
    response.close = place.close
    if parsed < 0:
        return exceed(response, b"https: body too long") if response.size > BODY_MAX else fail(response, b"https: malformed chunk")
    if parsed == 0:
        return 0
    http_join_chunks(octets + before)
    memset(place, 0, sizeof(ResponsePlace))
    return before + total


cdef int64_t read_body(uint8_t *octets, uint32_t size, bint ended, ResponsePlace *place, Response *response) noexcept nogil:
    """A body with its length, or to the end of the connection."""
    cdef uint32_t before = place.head
    response.close = place.close
    response.body = octets + before
    if place.length > BODY_MAX or place.length < 0 and size - before > BODY_MAX:
        return exceed(response, b"https: body too long")
    if place.length < 0:
        response.close = True
        response.size = size - before
        if not ended:
            return 0
    elif size - before < place.length:
        return 0
    else:
        response.size = <uint32_t>place.length
    memset(place, 0, sizeof(ResponsePlace))
    return before + response.size
