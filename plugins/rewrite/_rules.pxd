"""Rules of rewrite in native form, and matching names by them."""
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memchr, memcmp
from fastdns.api.names cimport NAME_MAX, Name
from fastdns.api.metadata cimport Label
from fastdns.api.query cimport Query
from fastdns.api.expression cimport GROUPS_MAX, Pattern, Span, regex_match

cdef enum:
    TEXT_MAX = 1100             # characters of a name in presentation form: four for each octet, and slack

cdef enum Field:
    FIELD_NAME
    FIELD_TYPE
    FIELD_CLASS
    FIELD_TTL
    FIELD_RCODE
    FIELD_CNAME
    FIELD_EDNS0

cdef enum Match:
    MATCH_EXACT
    MATCH_PREFIX
    MATCH_SUFFIX
    MATCH_SUBSTRING
    MATCH_REGEX

cdef enum Action:
    ACTION_SET
    ACTION_APPEND
    ACTION_REPLACE
    ACTION_UNSET

cdef enum Source:               # where the data of an option comes from
    SOURCE_DATA
    SOURCE_QNAME
    SOURCE_QTYPE
    SOURCE_CLIENT_IP
    SOURCE_SERVER_IP
    SOURCE_CLIENT_PORT
    SOURCE_SERVER_PORT
    SOURCE_PROTOCOL
    SOURCE_LABEL
    SOURCE_SUBNET

cdef struct Words:              # borrowed from the handler's bytes
    const char *text
    uint32_t length

cdef struct Part:               # of what a regular expression puts in place of a name: a literal, then a group, or the value of a label
    Words literal
    int32_t group               # -1: none
    const Label *label          # NULL: none; kept by the handler

cdef struct Template:
    uint32_t count
    Part *parts                 # owned by the handler

cdef struct Answer:             # answer name|value FROM TO
    uint8_t value
    const Pattern *pattern
    Template to

cdef struct Option:
    uint8_t action
    uint8_t source
    uint8_t revert
    uint8_t local               # not one of the codes that the Go library knows: those, its local rules never find
    uint8_t duplicates          # append adds a second one
    uint16_t code
    Words data
    const Label *label
    uint8_t bits[2]             # of an IPv4 and of an IPv6 address

cdef struct Rule:
    uint8_t field
    uint8_t match
    uint8_t stop
    uint8_t automatic
    const char *place           # FILE:LINE of the directive, zero-terminated; borrowed from the handler's bytes
    Words source
    Words to
    const Pattern *pattern
    # Names of whole labels are matched in wire form: prefixes without the root, suffixes without the dot that they begin with.
    uint8_t aligned
    uint8_t from_length
    uint8_t from_labels
    uint8_t to_length
    uint32_t hash               # of from_wire, as in Name.hash
    uint8_t from_wire[NAME_MAX]
    uint8_t to_wire[NAME_MAX]
    Template template
    uint8_t labelled            # its template has labels
    uint32_t answer_count
    Answer *answers             # owned by the handler
    uint32_t first              # numbers: from and to; least and greatest TTL
    uint32_t second
    Option option

cdef struct Rules:
    uint32_t count
    Rule *rules                 # owned by the handler

cdef struct Plain:              # a name in presentation form
    uint32_t length
    char text[TEXT_MAX]

cdef inline bint rule_matches_name(const Rule *rule, const Name *name) noexcept nogil:
    """The same for a rule that is `aligned`, on the lower-case wire form."""
    cdef uint32_t label
    if rule.match == MATCH_PREFIX:
        return (rule.from_labels <= name.labels and name.lower[0] == rule.from_wire[0] and name.lower[1] == rule.from_wire[1]
                and memcmp(name.lower, rule.from_wire, rule.from_length) == 0)
    if rule.match == MATCH_EXACT:
        return name.hash[0] == rule.hash and name.length == rule.from_length and memcmp(name.lower, rule.from_wire, rule.from_length) == 0
    if name.labels <= rule.from_labels:
        return False
    label = name.labels - rule.from_labels
    return name.hash[label] == rule.hash and memcmp(name.lower + name.offset[label], rule.from_wire, rule.from_length) == 0

cdef inline const char *find_part(const char *text, uint32_t length, const char *part, uint32_t n) noexcept nogil:
    """memmem for texts as short as names. Dots are in all of them: what stands behind the first one tells more."""
    cdef const char *end
    cdef uint32_t skip = part[0] == c'.' and n > 1
    if n > length:
        return NULL
    end = text + length - n
    while text <= end:
        text = <const char *>memchr(text + skip, part[skip], end - text + 1)
        if text == NULL:
            return NULL
        text -= skip
        if text[0] == part[0] and memcmp(text, part, n) == 0:
            return text
        text += 1
    return NULL

cdef inline bint rule_matches(const Rule *rule, const char *text, uint32_t length, Span *spans) noexcept nogil:
    """Does a name in presentation form match? Fills the groups of a regular expression that has a use for them."""
    cdef uint32_t n = rule.source.length
    if rule.match == MATCH_REGEX:
        return regex_match(rule.pattern, text, length, spans, min(rule.pattern.groups, <uint32_t>GROUPS_MAX) if rule.template.count else 0)
    if n > length:
        return False
    if rule.match == MATCH_EXACT:
        return n == length and memcmp(rule.source.text, text, n) == 0
    if rule.match == MATCH_PREFIX:
        return memcmp(rule.source.text, text, n) == 0
    if rule.match == MATCH_SUFFIX:
        return memcmp(rule.source.text, text + length - n, n) == 0
    return find_part(text, length, rule.source.text, n) != NULL

# Writes what an aligned rule makes of a name that it matches: its length in wire form, or -1 when that is too long.
cdef int rule_apply_name(const Rule *rule, const Name *name, uint8_t *out) noexcept nogil
# Writes what the rule makes of a name that it matches; False when that is longer than any name.
cdef bint rule_apply(const Rule *rule, const char *text, uint32_t length, const Span *spans, Plain *out) noexcept nogil
# Fills a template with the groups of a match.
cdef bint template_fill(const Template *template, const char *text, const Span *spans, uint32_t groups, Plain *out) noexcept nogil
# The same with the values of labels for a query, in lower case. 1, 0: the name is longer than any, or -1: a label has no value.
cdef int template_fill_labels(const Template *template, Query *q, const char *text, const Span *spans, Plain *out) noexcept nogil
# A name's presentation form, of the octets as given (Name.wire or Name.lower).
cdef void plain_name(const uint8_t *wire, Plain *out) noexcept nogil
cdef void plain_question(const Name *name, Plain *out) noexcept nogil
