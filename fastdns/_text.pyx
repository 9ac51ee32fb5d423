"""Names and numbers as log lines show them. See the .pxd."""
from libc.string cimport memcpy, strlen

from fastdns._wire cimport wire_name_text

from fastdns.parameters import CLASSES, RCODES, TYPES

cdef extern from "<arpa/inet.h>" nogil:
    const char *inet_ntop(int family, const void *address, char *out, unsigned int room)
    enum: AF_INET6

cdef enum:
    NAMED = 512                 # types below it have their names in a table by number
    NAME_ROOM = 12
    FAR = 8                     # named types above

cdef struct FarType:
    uint16_t number
    char name[NAME_ROOM]

cdef char type_names[NAMED][NAME_ROOM]
cdef FarType far_types[FAR]
cdef char class_names[256][NAME_ROOM]
cdef char rcode_names[32][NAME_ROOM]


cdef int store(char *place, str name) except -1:
    cdef bytes octets = name.encode("ascii")
    if len(octets) >= NAME_ROOM:
        raise ValueError(name)
    memcpy(place, <const char *>octets, len(octets) + 1)
    return 0


cdef int fill() except -1:
    cdef uint32_t number, far = 0
    for number, name in TYPES.items():
        if number < NAMED:
            store(type_names[number], name)
        else:
            far_types[far].number = <uint16_t>number
            store(far_types[far].name, name)
            far += 1
    for number, name in CLASSES.items():
        store(class_names[number], name)
    for number, name in RCODES.items():
        store(rcode_names[number], name)
    return 0


fill()


cdef void text_put(Text *text, const char *what, uint32_t length) noexcept nogil:
    if text.full or length > text.room - text.used:
        text.full = 1
        return
    memcpy(text.out + text.used, what, length)
    text.used += length


cdef void text_char(Text *text, char c) noexcept nogil:
    text_put(text, &c, 1)


cdef void text_string(Text *text, const char *what) noexcept nogil:
    text_put(text, what, <uint32_t>strlen(what))


cdef void text_number(Text *text, uint64_t number) noexcept nogil:
    cdef char digits[20]
    cdef uint32_t at = 20
    while True:
        at -= 1
        digits[at] = <char>(c'0' + number % 10)
        number //= 10
        if not number:
            break
    text_put(text, digits + at, 20 - at)


cdef void text_type(Text *text, uint16_t type) noexcept nogil:
    cdef uint32_t i
    if type < NAMED:
        if type_names[type][0]:
            text_string(text, type_names[type])
            return
    else:
        for i in range(FAR):
            if far_types[i].number == type:
                text_string(text, far_types[i].name)
                return
    text_string(text, b"TYPE")
    text_number(text, type)


cdef void text_class(Text *text, uint16_t klass) noexcept nogil:
    if klass < 256 and class_names[klass][0]:
        text_string(text, class_names[klass])
        return
    text_string(text, b"CLASS")
    text_number(text, klass)


cdef void text_rcode(Text *text, uint16_t rcode) noexcept nogil:
    if rcode < 32 and rcode_names[rcode][0]:
        text_string(text, rcode_names[rcode])
    else:
        text_number(text, rcode)


cdef void text_name(Text *text, const uint8_t *wire) noexcept nogil:
    if text.full or text.room - text.used < 1024:   # as much as a name may need, so that none is cut
        text.full = 1
        return
    text.used += <uint32_t>wire_name_text(wire, text.out + text.used)


cdef void text_address(Text *text, const Address *address) noexcept nogil:
    cdef char out[48]
    cdef uint32_t i
    if address.family == 4:
        for i in range(4):
            if i:
                text_char(text, c'.')
            text_number(text, address.octets[i])
        return
    out[0] = 0
    inet_ntop(AF_INET6, address.octets, out, sizeof(out))
    text_char(text, c'[')
    text_string(text, out)
    if address.scope:
        text_char(text, c'%')
        text_number(text, address.scope)
    text_char(text, c']')


cdef void text_seconds(Text *text, int64_t ns) noexcept nogil:
    cdef char digits[9]
    cdef uint32_t i, used = 9
    cdef int64_t part
    if ns < 0:
        ns = 0
    text_number(text, ns // 1000000000)
    part = ns % 1000000000
    if part:
        for i in range(9):
            digits[8 - i] = <char>(c'0' + part % 10)
            part //= 10
        while digits[used - 1] == c'0':
            used -= 1
        text_char(text, c'.')
        text_put(text, digits, used)
    text_char(text, c's')


cdef void text_printable(Text *text, const char *what) noexcept nogil:
    cdef uint8_t octet
    while what[0] and not text.full:
        octet = <uint8_t>what[0]
        if octet >= 32 and octet < 127:
            text_char(text, octet)
        else:
            text_char(text, c'\\')
            text_char(text, c'0' + octet // 100)
            text_char(text, c'0' + octet // 10 % 10)
            text_char(text, c'0' + octet % 10)
        what += 1
