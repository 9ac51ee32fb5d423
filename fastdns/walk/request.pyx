"""The request of a child. The contract is in request.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset
from fastdns._wire cimport HEADER_SIZE, TYPE_OPT, store16, store32


cdef void request_write(Query *child) noexcept nogil:
    """A child has a request of its own making, so that whoever forwards it finds octets to forward."""
    cdef uint8_t *out = child.packet_copy
    cdef uint32_t used = HEADER_SIZE, n = child.first_name.length
    memset(out, 0, HEADER_SIZE)
    store16(out + 2, child.flags)
    out[5] = 1
    memcpy(out + used, child.first_name.wire, n)
    used += n
    store16(out + used, child.qtype)
    store16(out + used + 2, child.qclass)
    used += 4
    child.message.question_length = <uint16_t>(used - HEADER_SIZE)
    child.message.records = <uint16_t>used
    if child.edns.present:
        if child.edns.options_length > sizeof(child.packet_copy) - used - 11:
            child.edns.options_length = 0
        out[11] = 1
        out[used] = 0
        store16(out + used + 1, TYPE_OPT)
        store16(out + used + 3, child.edns.udp_size)
        store32(out + used + 5, child.edns.flags)
        store16(out + used + 9, child.edns.options_length)
        if child.edns.options_length:
            memcpy(out + used + 11, child.edns.options, child.edns.options_length)
        child.edns.options = out + used + 11
        used += 11 + child.edns.options_length
        child.message.counts[3] = 1
    child.message.edns = child.edns
    child.packet = out
    child.packet_length = used
