"""Messages of DNS on a connection. The contract is in transport/framing.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport realloc
from libc.string cimport memcpy, memmove
from fastdns.api.query cimport ERROR_MAX
from fastdns.api.wire cimport HEADER_SIZE, load16, store16, wire_answers
from fastdns.plugins.forward.transport.excess cimport excess_end
from fastdns.plugins.forward._upstream cimport CONNECTION_DEPTH, CONNECTION_SLOTS, EXCESS_MESSAGES, Exchange, OUT_KEPT, Stock, stock_exchange, stocks

cdef enum:
    OUT_MAX = 262144
    UNASKED_MAX = 100               # messages of a connection that are no reply, beside one for each question: replies that come late


cdef bint framing_reserve(Connection *c, uint32_t size) noexcept nogil:
    cdef uint32_t wanted = c.out_size if c.out_size else OUT_KEPT
    cdef uint8_t *out
    if c.out_sent and c.out_size - c.out_used < size:
        memmove(c.out, c.out + c.out_sent, c.out_used - c.out_sent)
        c.out_used -= c.out_sent
        c.out_sent = 0
    while wanted < c.out_used + size:
        wanted *= 2
    if wanted > OUT_MAX:
        return False
    if wanted != c.out_size:
        out = <uint8_t *>realloc(c.out, wanted)
        if out == NULL:
            return False
        c.out = out
        c.out_size = wanted
    return True


cdef int write_message(Connection *c, Exchange *e) noexcept nogil:
    if not framing_reserve(c, e.size + 2):
        snprintf(e.error, ERROR_MAX, b"write tcp %s: output buffer is full", c.peer.upstream.text)
        return -1
    store16(e.request, e.id)
    store16(c.out + c.out_used, e.size)
    memcpy(c.out + c.out_used + 2, e.request, e.size)
    c.out_used += e.size + 2
    return 0


cdef int64_t read_messages(Connection *c, uint8_t *octets, uint32_t size) noexcept nogil:
    cdef Stock *stock = stocks[c.peer.share.worker.id]
    cdef uint32_t at = 0
    while size - at >= 2 and size - at - 2 >= load16(octets + at):
        if not take(c, stock, octets + at + 2, load16(octets + at)):
            c.unasked += 1
            if c.unasked > UNASKED_MAX + <uint64_t>c.asked:
                excess_end(c, EXCESS_MESSAGES, b"it sends messages that are no reply")
                return -1
        at += 2 + load16(octets + at)
    return at


cdef bint take(Connection *c, Stock *stock, const uint8_t *packet, uint32_t length) noexcept nogil:
    """Hands a reply out. False: the message is no reply that somebody waits for."""
    cdef uint16_t id
    cdef uint32_t number
    cdef Exchange *e
    if length < HEADER_SIZE:
        return False
    id = load16(packet)
    number = c.slots[id & (CONNECTION_SLOTS - 1)]
    if number == 0:
        return False
    e = stock_exchange(stock, number)
    if e.id != id or e.connection != c or not (
            e.probe and packet[2] & 0x80 or wire_answers(packet, length, e.request, e.question_length)):
        return False
    return c.peer.share.answered(e, packet, length, False)


cdef Framing messages
messages.write = write_message
messages.read = read_messages
messages.depth = CONNECTION_DEPTH
DNS_FRAMING = &messages
