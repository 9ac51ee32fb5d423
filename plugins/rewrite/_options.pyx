"""EDNS options of a request, rewritten in the query's own memory."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset
from fastdns.api.query cimport Query, query_is_udp
from fastdns.api.reply cimport reply_alloc, reply_copy
from fastdns.api.wire cimport Edns, load16, store16
from fastdns.api.metadata cimport label_read
from fastdns.api.text cimport Text
from fastdns.api.network cimport Address
from fastdns.plugins.rewrite._work cimport REVERT_OPTION, Revert, Work, revert_add
from fastdns.plugins.rewrite._rules cimport (ACTION_APPEND, ACTION_REPLACE, ACTION_UNSET, SOURCE_CLIENT_IP, SOURCE_CLIENT_PORT, SOURCE_DATA,
                                             SOURCE_PROTOCOL, SOURCE_QNAME, SOURCE_QTYPE, SOURCE_SERVER_IP, SOURCE_SERVER_PORT, SOURCE_SUBNET,
                                             TEXT_MAX, Option, Plain, Rule)

cdef enum:
    OPTIONS_MAX = 16384         # octets of all options after a rule; a rule that would make more does not match
    CREATED_SIZE = 4096         # that a client is taken to accept when a rule made its OPT


cdef bint options_apply(Query *q, Work *work, const Rule *rule, const Plain *plain) noexcept nogil:
    cdef const Option *option = &rule.option
    cdef uint8_t buffer[TEXT_MAX]
    cdef const uint8_t *data = <const uint8_t *>option.data.text
    cdef uint32_t length = option.data.length
    cdef int place
    if option.action != ACTION_UNSET and option.source != SOURCE_DATA and option.source != SOURCE_SUBNET:
        length = read_data(q, option, plain, buffer)
        data = buffer
        if length == 0:
            return False
    if not q.edns.present:
        memset(&q.edns, 0, sizeof(Edns))
        q.edns.present = 1
        q.edns.udp_size = CREATED_SIZE
    work.options = q.options_made = 1
    if option.action == ACTION_UNSET:
        options_remove(q, &q.edns, option.code, True)
        return True
    if option.source == SOURCE_SUBNET:
        length = write_subnet(&q.client, option, buffer)
        data = buffer
    place = find(&q.edns, option.code) if option.local else -1
    if place >= 0:
        if option.action != ACTION_APPEND:
            return replace(q, work, option, <uint32_t>place, data, length)
        if not option.duplicates:
            return False
    return option.action != ACTION_REPLACE and append(q, work, option, data, length)


# ---- data ----

cdef uint32_t read_data(Query *q, const Option *option, const Plain *plain, uint8_t *out) noexcept nogil:
    """Octets of a variable, in out; 0 when it has no value."""
    cdef Text text
    if option.source == SOURCE_QNAME:
        memcpy(out, plain.text, plain.length)
        return plain.length
    if option.source == SOURCE_QTYPE:
        store16(out, q.qtype)
        return 2
    if option.source == SOURCE_CLIENT_IP:
        return write_address(&q.client, q.client.family, out)
    if option.source == SOURCE_SERVER_IP:
        return write_address(&q.local, q.client.family, out)
    if option.source == SOURCE_CLIENT_PORT:
        store16(out, q.client.port)
        return 2
    if option.source == SOURCE_SERVER_PORT:
        store16(out, q.local.port)
        return 2
    if option.source == SOURCE_PROTOCOL:
        memcpy(out, b"udp" if query_is_udp(q) else b"tcp", 3)
        return 3
    text.out, text.used, text.capacity, text.full = <char *>out, 0, TEXT_MAX, 0
    if not label_read(option.label, q, &text):
        return 0
    return text.used


cdef uint32_t write_address(const Address *address, uint8_t family, uint8_t *out) noexcept nogil:
    if family == 4:
        memcpy(out, address.octets, 4)
        return 4
    memcpy(out, address.octets, 16)
    return 16


cdef uint32_t write_subnet(const Address *client, const Option *option, uint8_t *out) noexcept nogil:
    """RFC 7871 6: family, source and scope prefix, the address as far as its prefix goes."""
    cdef uint8_t bits = option.bits[0 if client.family == 4 else 1]
    cdef uint32_t octets = (bits + 7) >> 3
    store16(out, 1 if client.family == 4 else 2)
    out[2] = bits
    out[3] = 0
    memcpy(out + 4, client.octets, octets)
    if bits & 7:
        out[3 + octets] &= <uint8_t>(0xFF00 >> (bits & 7))
    return 4 + octets


# ---- options ----

cdef int find(const Edns *edns, uint16_t code) noexcept nogil:
    """Where the first option of a code begins; -1 without one. Options were checked when the message was parsed."""
    cdef uint32_t at = 0
    while at + 4 <= edns.options_length:
        if load16(edns.options + at) == code:
            return <int>at
        at += 4 + <uint32_t>load16(edns.options + at + 2)
    return -1


cdef void write_option(uint8_t *out, uint16_t code, const uint8_t *data, uint32_t length) noexcept nogil:
    store16(out, code)
    store16(out + 2, length)
    if length:
        memcpy(out + 4, data, length)


cdef bint append(Query *q, Work *work, const Option *option, const uint8_t *data, uint32_t length) noexcept nogil:
    cdef uint32_t size = q.edns.options_length + 4 + length
    cdef uint8_t *made
    if size > OPTIONS_MAX:
        return False
    made = reply_alloc(&q.reply, size)
    if made == NULL or option.revert and revert_option(q, work, option.code) == NULL:
        return False
    if q.edns.options_length:
        memcpy(made, q.edns.options, q.edns.options_length)
    write_option(made + q.edns.options_length, option.code, data, length)
    q.edns.options = made
    q.edns.options_length = <uint16_t>size
    return True


cdef Revert *revert_option(Query *q, Work *work, uint16_t code) noexcept nogil:
    cdef Revert *revert = revert_add(q, work, REVERT_OPTION, NULL)
    if revert != NULL:
        revert.code = code
    return revert


cdef bint replace(Query *q, Work *work, const Option *option, uint32_t place, const uint8_t *data, uint32_t length) noexcept nogil:
    cdef uint32_t before = load16(q.edns.options + place + 2)
    cdef Revert *revert
    if option.revert:
        revert = revert_option(q, work, option.code)
        if revert == NULL:
            return False
        revert.data = reply_copy(&q.reply, q.edns.options + place + 4, before)
        if revert.data == NULL:
            return False
        revert.data_length = <uint16_t>before
    return splice(q, &q.edns, place, option.code, data, length)


cdef bint splice(Query *q, Edns *edns, uint32_t place, uint16_t code, const uint8_t *data, uint32_t length) noexcept nogil:
    """Other data for the option at `place`."""
    cdef uint32_t before = 4 + <uint32_t>load16(edns.options + place + 2)
    cdef uint32_t size = edns.options_length - before + 4 + length
    cdef uint8_t *made
    if size > OPTIONS_MAX:
        return False
    made = reply_alloc(&q.reply, size)
    if made == NULL:
        return False
    memcpy(made, edns.options, place)
    write_option(made + place, code, data, length)
    memcpy(made + place + 4 + length, edns.options + place + before, edns.options_length - place - before)
    edns.options = made
    edns.options_length = <uint16_t>size
    return True


cdef void options_replace(Query *q, Edns *edns, uint16_t code, const uint8_t *data, uint32_t length) noexcept nogil:
    cdef int place = find(edns, code)
    if place >= 0:
        splice(q, edns, <uint32_t>place, code, data, length)


cdef void options_remove(Query *q, Edns *edns, uint16_t code, bint all_of_them) noexcept nogil:
    cdef uint32_t at = 0, used = 0, size
    cdef uint8_t *made
    cdef bint removed = False
    if find(edns, code) < 0:
        return
    made = reply_alloc(&q.reply, edns.options_length)
    if made == NULL:
        return
    while at + 4 <= edns.options_length:
        size = 4 + <uint32_t>load16(edns.options + at + 2)
        if load16(edns.options + at) != code or removed and not all_of_them:
            memcpy(made + used, edns.options + at, size)
            used += size
        else:
            removed = True
        at += size
    edns.options = made
    edns.options_length = <uint16_t>used
