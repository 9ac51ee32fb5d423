"""What templates see of a query; see _fields.pxd."""
from libc.stdint cimport int32_t, uint16_t, uint32_t
from libc.stdio cimport snprintf
from fastdns.api.query cimport Query, query_length
from fastdns.api.wire cimport EDNS_DO, FLAG_AA, FLAG_AD, FLAG_CD, FLAG_QR, FLAG_RA, FLAG_RD, FLAG_TC, FLAG_Z, flags_opcode, flags_rcode
from fastdns.api.metadata cimport Label, label_read
from fastdns.api.text cimport Text, text_address, text_char, text_class, text_name, text_number, text_string, text_type
from fastdns.api.expression cimport (MAP_OF_TEXTS, VALUE_ARRAY, VALUE_MAP, VALUE_OBJECT, Groups, ValueArena, Value, copy_text, map_sort, arena_alloc,
                                     set_bool, set_int, set_nil, set_text)

cdef enum Field:
    FIELD_OTHER
    FIELD_ZONE
    FIELD_NAME
    FIELD_CLASS
    FIELD_TYPE
    FIELD_MATCH
    FIELD_GROUP
    FIELD_REGEX
    FIELD_MESSAGE
    FIELD_QUESTION
    FIELD_REMOTE
    FIELD_VAR
    FIELD_QTYPE
    FIELD_QCLASS
    FIELD_ID
    FIELD_RESPONSE
    FIELD_OPCODE
    FIELD_AUTHORITATIVE
    FIELD_TRUNCATED
    FIELD_RECURSION_DESIRED
    FIELD_RECURSION_AVAILABLE
    FIELD_ZERO
    FIELD_AUTHENTICATED
    FIELD_CHECKING_DISABLED
    FIELD_RCODE
    FIELD_META
    FIELD_EDNS
    FIELD_DO
    FIELD_UDP_SIZE
    FIELD_VERSION
    FIELD_STRING
    FIELD_NO_RECORDS
    FIELD_EXTRA
    FIELD_HEADER
    FIELD_LENGTH
    FIELD_COMPRESS
    FIELD_TSIG

FIELDS = {
    "Zone": FIELD_ZONE, "Name": FIELD_NAME, "Class": FIELD_CLASS, "Type": FIELD_TYPE, "Match": FIELD_MATCH, "Group": FIELD_GROUP, "Regex": FIELD_REGEX,
    "Message": FIELD_MESSAGE, "Question": FIELD_QUESTION, "Remote": FIELD_REMOTE, "Var": FIELD_VAR, "Qtype": FIELD_QTYPE, "Qclass": FIELD_QCLASS,
    "Id": FIELD_ID, "Response": FIELD_RESPONSE, "Opcode": FIELD_OPCODE, "Authoritative": FIELD_AUTHORITATIVE, "Truncated": FIELD_TRUNCATED,
    "RecursionDesired": FIELD_RECURSION_DESIRED, "RecursionAvailable": FIELD_RECURSION_AVAILABLE, "Zero": FIELD_ZERO,
    "AuthenticatedData": FIELD_AUTHENTICATED, "CheckingDisabled": FIELD_CHECKING_DISABLED, "Rcode": FIELD_RCODE, "Meta": FIELD_META,
    "IsEdns0": FIELD_EDNS, "Do": FIELD_DO, "UDPSize": FIELD_UDP_SIZE, "Version": FIELD_VERSION, "String": FIELD_STRING,
    "Answer": FIELD_NO_RECORDS, "Ns": FIELD_NO_RECORDS, "Extra": FIELD_EXTRA, "MsgHdr": FIELD_HEADER, "Len": FIELD_LENGTH, "Compress": FIELD_COMPRESS,
    "IsTsig": FIELD_TSIG,
}

cdef const char *OBJECT_TYPES[4]
OBJECT_TYPES[:] = [b"*template.templateData", b"*dns.Msg", b"*dns.Question", b"*dns.OPT"]

cdef int object_field(const Data *data, ValueArena *arena, const Value *base, int32_t which, const Label *label, bint called, Value *out) noexcept nogil:
    if base.number == OBJECT_ROOT:
        return root_field(data, arena, which, label, called, out)
    if base.number == OBJECT_QUESTION:
        return question_field(data, arena, which, out)
    if base.number == OBJECT_MESSAGE:
        return message_field(data, arena, which, out)
    return opt_field(data, which, out)


cdef int root_field(const Data *data, ValueArena *arena, int32_t which, const Label *label, bint called, Value *out) noexcept nogil:
    cdef char buffer[2048]
    cdef Text text
    text.out, text.used, text.capacity, text.full = buffer, 0, sizeof(buffer), 0
    if which == FIELD_NAME:
        set_text(out, data.name, data.name_length)
    elif which == FIELD_ZONE:
        set_text(out, data.zone, data.zone_length)
    elif which == FIELD_REGEX:
        set_text(out, data.regex, data.regex_length)
    elif which == FIELD_CLASS:
        text_class(&text, data.klass)
        return copied(arena, &text, out)
    elif which == FIELD_TYPE:
        text_type(&text, data.type)
        return copied(arena, &text, out)
    elif which == FIELD_REMOTE:
        text_address(&text, &data.q.client)
        if buffer[0] == c'[':
            return 0 if copy_text(arena, buffer + 1, text.used - 2, out) else -1
        return copied(arena, &text, out)
    elif which == FIELD_MATCH:
        return groups_list(data, arena, out)
    elif which == FIELD_GROUP:
        return groups_map(data, arena, out)
    elif which == FIELD_VAR:
        return variables_map(data, arena, out)
    elif which == FIELD_MESSAGE or which == FIELD_QUESTION:
        out.kind = VALUE_OBJECT
        out.number = OBJECT_MESSAGE if which == FIELD_MESSAGE else OBJECT_QUESTION
    elif which == FIELD_META and called:
        set_text(out, b"", 0)
        if label != NULL and label_read(label, data.q, &text):
            return copied(arena, &text, out)
    else:
        return -2
    return 0


cdef inline void group_text(const Groups *groups, uint32_t number, Value *out) noexcept nogil:
    set_text(out, b"", 0)
    if number < groups.count and groups.spans[number].start >= 0:
        set_text(out, groups.text + groups.spans[number].start, <uint32_t>(groups.spans[number].end - groups.spans[number].start))


cdef int groups_list(const Data *data, ValueArena *arena, Value *out) noexcept nogil:
    cdef const Groups *groups = data.groups
    cdef Value *items = <Value *>arena_alloc(arena, <uint32_t>((groups.count + 1) * sizeof(Value)))
    cdef uint32_t i
    if items == NULL:
        return -1
    for i in range(groups.count):
        group_text(groups, i, &items[i])
    out.kind = VALUE_ARRAY
    out.items = items
    out.length = groups.count
    return 0


cdef int groups_map(const Data *data, ValueArena *arena, Value *out) noexcept nogil:
    """Groups by number, as text, and by name."""
    cdef const Groups *groups = data.groups
    cdef uint32_t count = groups.count + groups.name_count, i
    cdef Value *items = <Value *>arena_alloc(arena, <uint32_t>((2 * count + 1) * sizeof(Value)))
    cdef char digits[12]
    if items == NULL:
        return -1
    for i in range(groups.count):
        if not copy_text(arena, digits, <uint32_t>snprintf(digits, sizeof(digits), b"%u", i), &items[2 * i]):
            return -1
        group_text(groups, i, &items[2 * i + 1])
    for i in range(groups.name_count):
        items[2 * (groups.count + i)] = groups.names[2 * i]
        group_text(groups, <uint32_t>groups.names[2 * i + 1].number, &items[2 * (groups.count + i) + 1])
    out.kind = VALUE_MAP
    out.number = MAP_OF_TEXTS
    out.items = items
    out.length = count
    map_sort(out)
    return 0


cdef int variables_map(const Data *data, ValueArena *arena, Value *out) noexcept nogil:
    cdef Value *items = <Value *>arena_alloc(arena, <uint32_t>((2 * data.variable_count + 1) * sizeof(Value)))
    cdef uint32_t i
    if items == NULL:
        return -1
    for i in range(data.variable_count):
        items[2 * i] = data.variable_names[i]
        items[2 * i + 1] = data.variables[i]
    out.kind = VALUE_MAP
    out.number = 0
    out.items = items
    out.length = data.variable_count
    map_sort(out)
    return 0


cdef int question_field(const Data *data, ValueArena *arena, int32_t which, Value *out) noexcept nogil:
    cdef char buffer[1100]
    cdef Text text
    if which == FIELD_NAME:
        text.out, text.used, text.capacity, text.full = buffer, 0, sizeof(buffer), 0
        text_name(&text, data.q.name.wire)
        return copied(arena, &text, out)
    if which == FIELD_STRING:
        return question_text(data, arena, out)
    if which == FIELD_QTYPE:
        set_int(out, data.q.qtype)
        return 0
    if which == FIELD_QCLASS:
        set_int(out, data.q.qclass)
        return 0
    return -2


cdef int message_field(const Data *data, ValueArena *arena, int32_t which, Value *out) noexcept nogil:
    cdef const Query *q = data.q
    cdef uint16_t flag
    if which == FIELD_ID:
        set_int(out, q.message.id)
    elif which == FIELD_OPCODE:
        set_int(out, flags_opcode(q.flags))
    elif which == FIELD_RCODE:
        set_int(out, flags_rcode(q.flags))
    elif which == FIELD_QUESTION or which == FIELD_NO_RECORDS or which == FIELD_EXTRA:
        out.items = <Value *>arena_alloc(arena, sizeof(Value))
        if out.items == NULL:
            return -1
        out.kind = VALUE_ARRAY
        out.length = 1 if which == FIELD_QUESTION else 0
        if which == FIELD_EXTRA and q.edns.present:
            out.length = 1
        out.items[0].kind = VALUE_OBJECT
        out.items[0].number = OBJECT_QUESTION if which == FIELD_QUESTION else OBJECT_OPT
    elif which == FIELD_HEADER:
        out.kind = VALUE_OBJECT
        out.number = OBJECT_MESSAGE
    elif which == FIELD_LENGTH:
        set_int(out, query_length(q))
    elif which == FIELD_COMPRESS:
        set_bool(out, False)
    elif which == FIELD_TSIG:
        set_nil(out)
        out.number = NIL_POINTER
    elif which == FIELD_EDNS:
        set_nil(out)
        out.number = NIL_POINTER
        if q.edns.present:
            out.kind = VALUE_OBJECT
            out.number = OBJECT_OPT
    else:
        flag = (FLAG_QR if which == FIELD_RESPONSE else FLAG_AA if which == FIELD_AUTHORITATIVE else FLAG_TC if which == FIELD_TRUNCATED
                else FLAG_RD if which == FIELD_RECURSION_DESIRED else FLAG_RA if which == FIELD_RECURSION_AVAILABLE else FLAG_Z if which == FIELD_ZERO
                else FLAG_AD if which == FIELD_AUTHENTICATED else FLAG_CD if which == FIELD_CHECKING_DISABLED else 0)
        if flag == 0:
            return -2
        set_bool(out, q.flags & flag != 0)
    return 0


cdef int opt_field(const Data *data, int32_t which, Value *out) noexcept nogil:
    cdef const Query *q = data.q
    if which == FIELD_DO:
        set_bool(out, q.edns.flags & EDNS_DO != 0)
    elif which == FIELD_UDP_SIZE:
        set_int(out, q.edns.udp_size)
    elif which == FIELD_VERSION:
        set_int(out, q.edns.version)
    else:
        return -2
    return 0


cdef int question_text(const Data *data, ValueArena *arena, Value *out) noexcept nogil:
    """As in a zone file: ;NAME, CLASS and type."""
    cdef char buffer[1200]
    cdef Text text
    text.out, text.used, text.capacity, text.full = buffer, 0, sizeof(buffer), 0
    text_char(&text, c';')
    text_name(&text, data.q.name.wire)
    text_char(&text, c'\t')
    text_class(&text, data.q.qclass)
    text_string(&text, b"\t ")
    text_type(&text, data.q.qtype)
    return copied(arena, &text, out)


cdef int question_struct(const Data *data, ValueArena *arena, Value *out) noexcept nogil:
    """As Go prints it within a list: {name type class}."""
    cdef char buffer[1200]
    cdef Text text
    text.out, text.used, text.capacity, text.full = buffer, 0, sizeof(buffer), 0
    text_char(&text, c'{')
    text_name(&text, data.q.name.wire)
    text_char(&text, c' ')
    text_number(&text, data.q.qtype)
    text_char(&text, c' ')
    text_number(&text, data.q.qclass)
    text_char(&text, c'}')
    return copied(arena, &text, out)


cdef int copied(ValueArena *arena, const Text *text, Value *out) noexcept nogil:
    return 0 if copy_text(arena, text.out, text.used, out) else -1


cdef int32_t field_number(str name) except -1:
    return FIELDS.get(name, FIELD_OTHER)
