"""Operands of expressions that come from the query. The contract is in expression/question.pxd."""
from libc.stdint cimport int64_t, uint16_t, uint32_t
from fastdns.walk.metadata cimport LABEL_MAX, Label, label_read
from fastdns.walk.query cimport Query, query_bufsize, query_do, query_is_udp, query_length
from fastdns.message.text cimport Text, text_address, text_class, text_name, text_number, text_type
from fastdns.expression.value cimport VALUE_INT, VALUE_STRING, ValueArena, Value, copy_text, set_bool, set_int, set_text, value_equal
from fastdns.expression.operators cimport (OP_BUFSIZE, OP_CLASS, OP_CLIENT_IP, OP_DO, OP_ID, OP_NAME, OP_OPCODE, OP_PORT, OP_PROTO, OP_SERVER_IP,
                                           OP_SIZE, OP_TYPE, EVALUATION_ERROR, EVALUATION_OK)
from fastdns.protocol.header cimport flags_opcode


cdef int ask_query(Query *q, uint16_t operation, ValueArena *arena, Value *out) noexcept nogil:
    cdef char text[1100]
    cdef Text written
    if q == NULL:
        return EVALUATION_ERROR
    written.out, written.used, written.capacity, written.full = text, 0, sizeof(text), 0
    if operation == OP_SIZE:
        set_int(out, query_length(q))
        return EVALUATION_OK
    if operation == OP_BUFSIZE:
        set_int(out, query_bufsize(q))
        return EVALUATION_OK
    if operation == OP_ID:
        set_int(out, q.message.id)
        return EVALUATION_OK
    if operation == OP_OPCODE:
        set_int(out, flags_opcode(q.message.flags))
        return EVALUATION_OK
    if operation == OP_DO:
        set_bool(out, query_do(q))
        return EVALUATION_OK
    if operation == OP_PROTO:
        set_text(out, b"udp" if query_is_udp(q) else b"tcp", 3)
        return EVALUATION_OK
    if operation == OP_TYPE:
        text_type(&written, q.qtype)
    elif operation == OP_CLASS:
        text_class(&written, q.qclass)
    elif operation == OP_NAME:
        text_name(&written, q.name.lower)
    elif operation == OP_CLIENT_IP:
        text_address(&written, &q.client)
    elif operation == OP_SERVER_IP:
        text_address(&written, &q.local)
    elif operation == OP_PORT:
        text_number(&written, q.client.port)
    else:
        text_number(&written, q.local.port)
    if (operation == OP_CLIENT_IP or operation == OP_SERVER_IP) and text[0] == c'[':    # IPv6 addresses have no brackets in expressions
        return EVALUATION_OK if copy_text(arena, text + 1, written.used - 2, out) else EVALUATION_ERROR
    return EVALUATION_OK if copy_text(arena, text, written.used, out) else EVALUATION_ERROR


cdef int ask_group(const Groups *groups, const Value *which, Value *out) noexcept nogil:
    cdef int64_t number = -1
    cdef uint32_t i
    set_text(out, b"", 0)
    if groups == NULL:
        return EVALUATION_OK
    if which.kind == VALUE_INT:
        number = which.number
    elif which.kind == VALUE_STRING:
        for i in range(groups.name_count):
            if value_equal(&groups.names[2 * i], which):
                number = groups.names[2 * i + 1].number
        if number < 0 and 0 < which.length < 4:         # a number, as a string
            number = 0
            for i in range(which.length):
                if not c'0' <= which.text[i] <= c'9' or which.length > 1 and which.text[0] == c'0':
                    return EVALUATION_OK
                number = number * 10 + which.text[i] - c'0'
    if 0 <= number < groups.count and groups.spans[number].start >= 0:
        set_text(out, groups.text + groups.spans[number].start, <uint32_t>(groups.spans[number].end - groups.spans[number].start))
    return EVALUATION_OK


cdef int ask_label(const Label *label, Query *q, ValueArena *arena, Value *out) noexcept nogil:
    cdef char text[LABEL_MAX]
    cdef Text written
    written.out, written.used, written.capacity, written.full = text, 0, sizeof(text), 0
    if q == NULL or not label_read(label, q, &written):
        set_text(out, b"", 0)
        return EVALUATION_OK
    return EVALUATION_OK if copy_text(arena, text, written.used, out) else EVALUATION_ERROR
