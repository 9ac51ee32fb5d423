"""Fuzz targets over master files and rdata, in presentation form and on the wire. As _targets.pyx has it."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from fastdns._wire cimport TYPE_HTTPS, Name, wire_name_copy, wire_name_text
from fastdns.plugins.filter_aaaa._strip cimport strip_hint
from fastdns.zonefile.fields cimport BITMAP_OCTETS, RDATA_MAX, RdataText
from fastdns.zonefile.lexer cimport LEX_END, Lexer, lexer_begin, lexer_next
from fastdns.zonefile.parser cimport ZONEFILE_OK, ZoneParser, ZoneRecord, zonefile_begin, zonefile_end, zonefile_parse
from fastdns.zonefile.rdata cimport rdata_lower, rdata_parse, rdata_valid

cdef extern from "<strings.h>" nogil:
    int strncasecmp(const char *a, const char *b, size_t n)

cdef enum:
    TEXT_MAX = 1100             # octets of a name's presentation form
    IPV6HINT = 6                # RFC 9460 14.3.2
    RECORDS = 2000              # of a zone file that are looked at: $GENERATE makes more

cdef uint8_t rdata_buffer[RDATA_MAX + BITMAP_OCTETS]


cdef uint8_t *copied(const uint8_t *octets, uint32_t size) noexcept nogil:
    cdef uint8_t *copy = <uint8_t *>malloc(size if size else 1)
    if size:
        memcpy(copy, octets, size)
    return copy


# ---- master files ----

cdef struct Printed:            # the records of a zone file, in the form of RFC 3597
    char *text
    size_t used
    size_t size
    uint32_t records
    const char *failure


cdef char *print_reserve(Printed *printed, size_t size) noexcept nogil:
    cdef char *more
    if printed.used + size > printed.size:
        more = <char *>realloc(printed.text, 2 * (printed.used + size))
        if more == NULL:
            return NULL
        printed.text = more
        printed.size = 2 * (printed.used + size)
    return printed.text + printed.used


cdef void print_hex(Printed *printed, const uint8_t *octets, uint32_t length) noexcept nogil:
    cdef char *out = print_reserve(printed, 2 * length + 2)
    cdef uint32_t i
    for i in range(length):
        out[2 * i] = b"0123456789abcdef"[octets[i] >> 4]
        out[2 * i + 1] = b"0123456789abcdef"[octets[i] & 15]
    out[2 * length] = c"\n"
    printed.used += 2 * length + 1


cdef int print_record(void *self, ZoneRecord *record) noexcept nogil:
    cdef Printed *printed = <Printed *>self
    cdef char *out = print_reserve(printed, TEXT_MAX + 64)
    cdef int length
    if printed.records == RECORDS or out == NULL:
        return 1
    printed.records += 1
    if not rdata_valid(record.type, record.rdata, record.rdlength):
        printed.failure = b"a record has rdata that is not valid"
    if printed.failure != NULL:
        return 2
    length = wire_name_text(record.owner.wire, out)
    length += snprintf(out + length, 64, b" %u CLASS%u TYPE%u \\# %u ", <unsigned>record.ttl, <unsigned>record.klass, <unsigned>record.type,
                       <unsigned>record.rdlength)
    printed.used += length
    print_hex(printed, record.rdata, record.rdlength)
    return 0


cdef int print_file(const uint8_t *octets, size_t size, Printed *printed) noexcept nogil:
    cdef Name origin
    cdef ZoneParser *parser
    cdef int status
    wire_name_copy(&origin, b"\7example\3org\0", 13)
    parser = zonefile_begin(&origin)
    memset(printed, 0, sizeof(Printed))
    status = zonefile_parse(parser, <const char *>octets, size, b"/nonexistent/db", print_record, printed)
    zonefile_end(parser)
    return status


cdef const char *check_zone_file(const uint8_t *octets, size_t size) noexcept nogil:
    """A master file: its records, printed, are read as the same records."""
    cdef Printed first, second
    cdef int status
    cdef const char *failure
    cdef size_t i
    for i in range(size):
        if size - i >= 7 and strncasecmp(<const char *>octets + i, b"INCLUDE", 7) == 0:     # of files of this machine
            return NULL
    status = print_file(octets, size, &first)
    failure = first.failure
    if status == ZONEFILE_OK or status == 1:
        if print_file(<const uint8_t *>first.text if first.text != NULL else octets, first.used, &second) != ZONEFILE_OK:
            failure = b"records that were printed are not read"
        elif second.used != first.used or second.used and memcmp(first.text, second.text, first.used) != 0:
            failure = b"records that were printed are read as others"
        free(second.text)
    free(first.text)
    return failure


# ---- rdata ----

cdef int read_rdata(uint16_t type, const char *text, size_t length, uint32_t *used) noexcept nogil:
    """Rdata in presentation form into rdata_buffer: 0, or -1."""
    cdef Lexer lexer
    cdef RdataText state
    memset(&state, 0, sizeof(state))
    lexer_begin(&lexer, text, length, 1)
    lexer.fresh = 0
    state.lexer = &lexer
    state.origin = b"\0"
    state.origin_length = 1
    state.out = rdata_buffer
    state.bitmap = rdata_buffer + RDATA_MAX
    if rdata_parse(&state, type) < 0 or lexer_next(&lexer) != LEX_END:
        return -1
    used[0] = state.used
    return 0


cdef const char *check_svcb(const uint8_t *octets, size_t size) noexcept nogil:
    """Rdata of HTTPS (RFC 9460): a first octet, then its presentation form (even), or the octets themselves (odd)."""
    cdef Printed printed
    cdef uint32_t used = 0, length
    cdef uint8_t *rdata = copied(octets + 1, <uint32_t>size - 1) if size else NULL
    cdef const char *failure = NULL
    cdef bint valid
    memset(&printed, 0, sizeof(printed))
    if size == 0 or size > RDATA_MAX:
        free(rdata)
        return NULL
    length = <uint32_t>size - 1
    if octets[0] & 1 == 0:
        if read_rdata(TYPE_HTTPS, <const char *>rdata, length, &used) < 0:
            free(rdata)
            return NULL
        free(rdata)
        length = used
        rdata = copied(rdata_buffer, length)
    valid = rdata_valid(TYPE_HTTPS, rdata, length)
    if octets[0] & 1 == 0 and not valid:
        failure = b"a presentation form is read as rdata that is not valid"
    printed.used = <size_t>snprintf(print_reserve(&printed, 32), 32, b"\\# %u ", <unsigned>length)
    print_hex(&printed, rdata, length)
    if (read_rdata(TYPE_HTTPS, printed.text, printed.used - 1, &used) == 0) != valid:
        failure = b"octets are valid rdata as they are, or in the form of RFC 3597, and not in the other"
    elif valid and (used != length or memcmp(rdata_buffer, rdata, length) != 0):
        failure = b"the form of RFC 3597 is read as other octets"
    if valid:
        rdata_lower(TYPE_HTTPS, rdata, length)
        if not rdata_valid(TYPE_HTTPS, rdata, length):
            failure = b"rdata in lower case is not valid"
    if failure == NULL:
        failure = check_hint(rdata, length, valid)
    free(printed.text)
    free(rdata)
    return failure


cdef const char *check_hint(const uint8_t *rdata, uint32_t length, bint valid) noexcept nogil:
    """What filter_aaaa makes of it: as many octets as it has said, rdata as valid as before, and no hint any more."""
    cdef int left = strip_hint(rdata, length, IPV6HINT, NULL)
    cdef uint8_t *made
    cdef const char *failure = NULL
    if left < 0:
        return NULL
    if <uint32_t>left >= length:
        return b"a hint was removed, and the rdata is as long as before"
    made = <uint8_t *>malloc(left)
    if made == NULL:
        return NULL
    if strip_hint(rdata, length, IPV6HINT, made) != left:
        failure = b"rdata without its hint has another length than was said"
    elif valid and not rdata_valid(TYPE_HTTPS, made, left):
        failure = b"rdata without its hint is not valid"
    elif strip_hint(made, left, IPV6HINT, NULL) >= 0:
        failure = b"a hint was left"
    free(made)
    return failure


def addresses() -> dict:
    """As of _targets."""
    return {"zone-file": <size_t>&check_zone_file, "svcb": <size_t>&check_svcb}
