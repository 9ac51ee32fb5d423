"""DNS over HTTPS. The contract is in transport/doh.pxd. The status of a response is not looked at, as in CoreDNS: what is no reply is none."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy, strlen
from fastdns.api.query cimport ERROR_MAX
from fastdns.api.wire cimport HEADER_SIZE, store16
from fastdns.plugins.forward.transport.excess cimport excess_end
from fastdns.plugins.forward.transport.framing cimport framing_reserve
from fastdns.plugins.forward.transport.http1 cimport Response, http1_read
from fastdns.plugins.forward.transport.http2 cimport http2_field, http2_submit
from fastdns.api.http cimport NGHTTP2_NV_FLAG_NO_COPY_NAME, nghttp2_nv
from fastdns.plugins.forward._upstream cimport (EXCESS_MESSAGES, EXCESS_OCTETS, Connection, Exchange, HttpStream, Stock, exchange_returned,
                                                stock_exchange, stocks)

cdef enum:
    GET_MAX = 16384                 # octets of a message that goes in a path
    PATH_MAX = 16 + GET_MAX // 3 * 4 + 4
    HEAD_SIZE = 512                 # octets of a request of HTTP/1.1 but for path and body

cdef const char *DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


cdef inline bint by_get(const Connection *c, const Exchange *e) noexcept nogil:
    """Health checks use POST, and so does what is too long for a path."""
    return c.peer.share.settings.get and not e.probe and e.size <= GET_MAX


cdef uint32_t write_path(const Exchange *e, char *out) noexcept nogil:
    """The path of a GET: base64url without padding. The length; out has PATH_MAX octets."""
    cdef uint32_t used, at = 0, bits
    cdef const uint8_t *octets = e.request
    memcpy(out, b"/dns-query?dns=", 15)
    used = 15
    while at < e.size:
        bits = <uint32_t>octets[at] << 16
        if at + 1 < e.size:
            bits |= <uint32_t>octets[at + 1] << 8
        if at + 2 < e.size:
            bits |= octets[at + 2]
        out[used] = DIGITS[bits >> 18]
        out[used + 1] = DIGITS[bits >> 12 & 63]
        out[used + 2] = DIGITS[bits >> 6 & 63]
        out[used + 3] = DIGITS[bits & 63]
        used += 4 if at + 2 < e.size else 3 if at + 1 < e.size else 2
        at += 3
    return used


cdef void give(Exchange *e, uint8_t *body, uint32_t size) noexcept nogil:
    """Hands the reply out. Its id is 0 (RFC 8484 4.1), whatever the server says."""
    if size < HEADER_SIZE:
        exchange_returned(e, NULL, 0, b"dns: overflow unpacking uint16")
        return
    body[0] = body[1] = 0
    exchange_returned(e, body, size, NULL)


# ---- HTTP/2 ----

cdef int ask(HttpStream *stream, Exchange *e) noexcept nogil:
    cdef Connection *c = stream.connection
    cdef char *path = <char *>stocks[c.peer.share.worker.id].records
    cdef char number[8]
    cdef nghttp2_nv fields[8]
    cdef bint get = by_get(c, e)
    store16(e.request, 0)
    fields[0] = http2_field(b":method", b"GET" if get else b"POST")
    fields[1] = http2_field(b":scheme", b"https")
    fields[2] = http2_field(b":authority", c.peer.upstream.authority)
    fields[3] = http2_field(b":path", b"/dns-query")
    fields[4] = http2_field(b"accept", b"application/dns-message")
    fields[5] = http2_field(b"user-agent", b"fastdns")
    if get:
        fields[3].value = <uint8_t *>path
        fields[3].valuelen = write_path(e, path)
        fields[3].flags = NGHTTP2_NV_FLAG_NO_COPY_NAME
        return http2_submit(stream, fields, 6, False)
    fields[6] = http2_field(b"content-type", b"application/dns-message")
    fields[7] = http2_field(b"content-length", number)
    fields[7].valuelen = snprintf(number, sizeof(number), b"%u", e.size)
    fields[7].flags = NGHTTP2_NV_FLAG_NO_COPY_NAME
    return http2_submit(stream, fields, 8, True)


cdef void replied(HttpStream *stream, Exchange *e) noexcept nogil:
    give(e, stream.body, stream.body_used)


cdef void broken(HttpStream *stream, Exchange *e, const char *error) noexcept nogil:
    snprintf(e.error, ERROR_MAX, b"Post \"https://%s/dns-query\": %s", e.upstream.text, error)
    e.share.failed(e)


# ---- HTTP/1.1 ----

cdef int write_request(Connection *c, Exchange *e) noexcept nogil:
    cdef bint get = by_get(c, e)
    cdef char *out
    if not framing_reserve(c, HEAD_SIZE + <uint32_t>strlen(c.peer.upstream.authority) + (PATH_MAX if get else e.size)):
        snprintf(e.error, ERROR_MAX, b"write tcp %s: output buffer is full", c.peer.upstream.text)
        return -1
    store16(e.request, 0)
    out = <char *>c.out + c.out_used
    if get:
        memcpy(out, b"GET ", 4)
        out += 4
        out += write_path(e, out)
    else:
        memcpy(out, b"POST /dns-query", 15)
        out += 15
    out += snprintf(out, HEAD_SIZE, b" HTTP/1.1\r\nHost: %s\r\nAccept: application/dns-message\r\nUser-Agent: fastdns\r\n", c.peer.upstream.authority)
    if get:
        memcpy(out, b"\r\n", 2)
        out += 2
    else:
        out += snprintf(out, HEAD_SIZE, b"Content-Type: application/dns-message\r\nContent-Length: %u\r\n\r\n", e.size)
        memcpy(out, e.request, e.size)
        out += e.size
    c.out_used = <uint32_t>(out - <char *>c.out)
    c.current = <uint16_t>e.number
    return 0


cdef int64_t read_response(Connection *c, uint8_t *octets, uint32_t size) noexcept nogil:
    cdef Response response
    cdef Stock *stock = stocks[c.peer.share.worker.id]
    cdef int64_t done = http1_read(octets, size, False, &c.response, &response)
    if done < 0 and response.too_long:
        excess_end(c, EXCESS_OCTETS, response.failure)
    elif done < 0:
        c.failure = response.failure
    elif done > 0 and not take(c, stock, &response):
        return -1
    return done


cdef bint take(Connection *c, Stock *stock, Response *response) noexcept nogil:
    """Hands a reply out. False: nobody has asked."""
    cdef uint16_t number = c.current
    cdef bint late = c.retired
    if response.close:
        c.retired = 1
    c.current = 0
    if number:
        give(stock_exchange(stock, number), response.body, response.size)
        return True
    c.retired = 1
    if late:                                # of a request that was forgotten
        return True
    excess_end(c, EXCESS_MESSAGES, b"https: unsolicited response")
    return False


cdef void read_last(Connection *c) noexcept nogil:
    """A body without a length ends with the connection."""
    cdef Response response
    if c.partial_used and http1_read(c.partial, c.partial_used, True, &c.response, &response) > 0:
        take(c, stocks[c.peer.share.worker.id], &response)
    elif c.partial_used:
        c.failure = b"unexpected EOF"


cdef void forget_request(Connection *c, Exchange *e) noexcept nogil:
    """Its response comes, and belongs to nobody."""
    if c.current == e.number:
        c.current = 0
        c.retired = 1


cdef HttpService service
service.ask = ask
service.replied = replied
service.broken = broken
DOH_SERVICE = &service

cdef Framing lines
lines.write = write_request
lines.read = read_response
lines.depth = 1
lines.forget = forget_request
lines.ended = read_last
HTTP1_FRAMING = &lines
