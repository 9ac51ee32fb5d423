"""Matching names by rules, and what becomes of them."""
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset
from fastdns.api.names cimport NAME_MAX, Name, wire_name_text
from fastdns.api.wire cimport copy_octets
from fastdns.api.expression cimport Span
from fastdns.api.metadata cimport label_read
from fastdns.api.text cimport Text

cdef uint8_t escaped[256]       # octets that stand in a name's presentation form with a backslash
cdef int _octet
for _octet in range(256):
    escaped[_octet] = _octet <= 32 or _octet > 126 or chr(_octet) in ".'@;()\"\\"


cdef void plain_name(const uint8_t *wire, Plain *out) noexcept nogil:
    cdef uint32_t used = 0, end
    cdef uint8_t unusual = 0
    cdef uint8_t octet
    cdef char *text = out.text
    while wire[used] != 0:
        end = used + wire[used]
        while used < end:
            octet = wire[used + 1]
            unusual |= escaped[octet]
            text[used] = <char>octet
            used += 1
        text[used] = c'.'
        used += 1
    if unusual or used == 0:
        used = <uint32_t>wire_name_text(wire, out.text)
    out.length = used


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    typedef uint8_t rewrite_octets __attribute__((vector_size(16)));
    /* Is there an octet among these, 16 at a time, that stands in a name's text with a backslash: controls, blanks, '@;()" and backslash? Counts dots. */
    static inline int rewrite_unusual(const uint8_t *text, uint32_t blocks, uint32_t *dots) {
        rewrite_octets bad = {0}, points = {0}, c;
        typedef int8_t signs __attribute__((vector_size(16)));
        uint64_t halves[2];
        for (; blocks; blocks--, text += 16) {
            memcpy(&c, text, 16);
            bad |= (rewrite_octets)(((signs)c < 33) | (c == 127) | (c == 39) | (c == 64) | (c == 59) | (c == 40) | (c == 41) | (c == 34) | (c == 92));
            points -= (rewrite_octets)(c == 46);
        }
        memcpy(halves, &points, 16);        /* at most 16 a place, 127 in all */
        *dots = (uint32_t)((halves[0] + halves[1]) * 0x0101010101010101u >> 56);
        memcpy(halves, &bad, 16);
        return (halves[0] | halves[1]) != 0;
    }
    """
    int unusual_octets "rewrite_unusual"(const uint8_t *text, uint32_t blocks, uint32_t *dots) noexcept nogil


cdef void plain_question(const Name *name, Plain *out) noexcept nogil:
    """The same of a name that is indexed, in lower case."""
    cdef uint32_t n = name.length - 1, at = 0, i, dots
    while at < n:                   # Name.lower has the slack
        memcpy(out.text + at, name.lower + 1 + at, 16)
        at += 16
    memset(out.text + n, c'a', 16)
    for i in range(1, name.labels + 1u):
        out.text[name.offset[i] - 1] = c'.'
    if n == 0 or unusual_octets(<const uint8_t *>out.text, (n + 15) >> 4, &dots) or dots != name.labels:
        n = <uint32_t>wire_name_text(name.lower, out.text)
    out.length = n


cdef int rule_apply_name(const Rule *rule, const Name *name, uint8_t *out) noexcept nogil:
    cdef uint32_t head
    if rule.match == MATCH_EXACT:
        copy_octets(out, rule.to_wire, rule.to_length)
        return rule.to_length
    if rule.match == MATCH_SUFFIX:
        head = name.offset[name.labels - rule.from_labels]
        if head + rule.to_length > NAME_MAX:
            return -1
        copy_octets(out, name.lower, head)
        copy_octets(out + head, rule.to_wire, rule.to_length)
        return <int>head + rule.to_length
    head = name.length - rule.from_length
    if head + rule.to_length > NAME_MAX:
        return -1
    copy_octets(out, rule.to_wire, rule.to_length)
    copy_octets(out + rule.to_length, name.lower + rule.from_length, head)
    return <int>head + rule.to_length


cdef inline bint put(Plain *out, const char *text, uint32_t length) noexcept nogil:
    if length > TEXT_MAX - out.length:
        return False
    memcpy(out.text + out.length, text, length)
    out.length += length
    return True


cdef bint rule_apply(const Rule *rule, const char *text, uint32_t length, const Span *spans, Plain *out) noexcept nogil:
    cdef const char *found
    cdef const char *end = text + length
    cdef uint32_t n = rule.source.length
    out.length = 0
    if rule.match == MATCH_EXACT:
        return put(out, rule.to.text, rule.to.length)
    if rule.match == MATCH_PREFIX:
        return put(out, rule.to.text, rule.to.length) and put(out, text + n, length - n)
    if rule.match == MATCH_SUFFIX:
        return put(out, text, length - n) and put(out, rule.to.text, rule.to.length)
    if rule.match == MATCH_REGEX:
        return template_fill(&rule.template, text, spans, rule.pattern.groups, out)
    while True:
        found = find_part(text, <uint32_t>(end - text), rule.source.text, n)
        if found == NULL:
            return put(out, text, <uint32_t>(end - text))
        if not put(out, text, <uint32_t>(found - text)) or not put(out, rule.to.text, rule.to.length):
            return False
        text = found + n


cdef bint template_fill(const Template *template, const char *text, const Span *spans, uint32_t groups, Plain *out) noexcept nogil:
    cdef uint32_t i
    cdef int32_t group
    out.length = 0
    for i in range(template.count):
        if not put(out, template.parts[i].literal.text, template.parts[i].literal.length):
            return False
        group = template.parts[i].group
        if group >= 0 and <uint32_t>group < groups and spans[group].start >= 0:
            if not put(out, text + spans[group].start, <uint32_t>(spans[group].end - spans[group].start)):
                return False
    return True


cdef int template_fill_labels(const Template *template, Query *q, const char *text, const Span *spans, Plain *out) noexcept nogil:
    cdef const Part *part = template.parts
    cdef char value[TEXT_MAX]
    cdef Text read
    cdef uint32_t i, _part
    cdef bint fits = True
    out.length = 0
    for _part in range(template.count):
        fits = fits and put(out, part.literal.text, part.literal.length)
        if part.label != NULL:
            read.out, read.used, read.capacity, read.full = value, 0, TEXT_MAX, 0
            if not label_read(part.label, q, &read) or read.used == 0:
                return -1
            for i in range(read.used):
                if c"A" <= value[i] <= c"Z":
                    value[i] |= 0x20
            fits = fits and not read.full and put(out, value, read.used)
        elif part.group >= 0 and spans[part.group].start >= 0:
            fits = fits and put(out, text + spans[part.group].start, <uint32_t>(spans[part.group].end - spans[part.group].start))
        part += 1
    return fits
