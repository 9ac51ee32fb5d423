"""Formats with placeholders, compiled and written. The contract is in walk/placeholders.pxd."""
from libc.stdint cimport uint16_t, uint32_t
from libc.stdlib cimport calloc, free

from fastdns.walk.metadata cimport LabelHandle, label_read
from fastdns.walk.query cimport Query, query_bufsize, query_do, query_is_udp, query_length
from fastdns.system.socket cimport socket_clock
from fastdns.message.text cimport Text, text_address, text_char, text_class, text_name, text_number, text_put, text_rcode, text_seconds, text_string, text_type
from fastdns._wire cimport FLAG_AA, FLAG_AD, FLAG_CD, FLAG_RA, FLAG_RD, FLAG_TC, RCODE_NOERROR
from fastdns.protocol.header cimport OPCODE_QUERY, flags_opcode

from fastdns.walk.metadata import resolve as resolve_label

cdef enum Kind:
    LITERAL
    TYPE
    KLASS
    NAME
    PROTO
    REMOTE
    PORT
    LOCAL
    SIZE
    RCODE
    RSIZE
    DURATION
    RFLAGS
    ID
    OPCODE
    DO
    BUFSIZE
    METADATA

#: Placeholders by what stands between their braces.
PLACEHOLDERS = {
    "type": TYPE, "class": KLASS, "name": NAME, "proto": PROTO, "remote": REMOTE, "port": PORT, "local": LOCAL, "size": SIZE, "rcode": RCODE,
    "rsize": RSIZE, "duration": DURATION, ">rflags": RFLAGS, ">id": ID, ">opcode": OPCODE, ">do": DO, ">bufsize": BUFSIZE,
}


cdef void format_write(const Operation *operation, uint32_t count, Text *text, Query *q, bint recorded) noexcept nogil:
    cdef const Operation *end = operation + count
    while operation < end:
        write_value(text, operation, q, recorded)
        operation += 1


cdef bint query_was_dropped(const Query *q) noexcept nogil:
    """A failure has one of four rcodes, never NOERROR."""
    return not q.reply.written and q.reply.rcode == RCODE_NOERROR


cdef void write_value(Text *text, const Operation *operation, Query *q, bint recorded) noexcept nogil:
    cdef uint32_t kind = operation.kind
    if kind == LITERAL:
        text_put(text, operation.literal, operation.length)
    elif kind == TYPE:
        text_type(text, q.qtype)
    elif kind == KLASS:
        text_class(text, q.qclass)
    elif kind == NAME:
        text_name(text, q.first_name.lower)
    elif kind == PROTO:
        text_put(text, b"udp" if query_is_udp(q) else b"tcp", 3)
    elif kind == REMOTE:
        text_address(text, &q.client)
    elif kind == PORT:
        text_number(text, q.client.port)
    elif kind == LOCAL:
        text_address(text, &q.local)
    elif kind == SIZE:
        text_number(text, query_length(q))
    elif kind == RCODE:
        if not recorded or query_was_dropped(q):
            text_char(text, c'-')
        else:
            text_rcode(text, q.reply.rcode)
    elif kind == RSIZE:
        if recorded:
            text_number(text, 0 if query_was_dropped(q) else q.reply.size)
        else:
            text_char(text, c'-')
    elif kind == DURATION:
        if recorded:
            text_seconds(text, socket_clock() - q.received)
        else:
            text_char(text, c'-')
    elif kind == RFLAGS:
        if recorded and not query_was_dropped(q):
            write_flags(text, q)
        else:
            text_char(text, c'-')
    elif kind == ID:
        text_number(text, q.message.id)
    elif kind == OPCODE:
        text_number(text, flags_opcode(q.message.flags))
    elif kind == DO:
        text_string(text, b"true" if query_do(q) else b"false")
    elif kind == BUFSIZE:
        text_number(text, query_bufsize(q))
    elif operation.label == NULL or not label_read(operation.label, q, text):
        text_char(text, c'-')


cdef void write_flags(Text *text, const Query *q) noexcept nogil:
    cdef uint16_t flags = q.reply.flags
    text_put(text, b"qr", 2)
    if flags_opcode(q.message.flags) == OPCODE_QUERY:
        flags |= q.message.flags & (FLAG_RD | FLAG_CD)
    if flags & FLAG_AA:
        text_put(text, b",aa", 3)
    if flags & FLAG_TC:
        text_put(text, b",tc", 3)
    if flags & FLAG_RD:
        text_put(text, b",rd", 3)
    if flags & FLAG_RA:
        text_put(text, b",ra", 3)
    if flags & FLAG_AD:
        text_put(text, b",ad", 3)
    if flags & FLAG_CD:
        text_put(text, b",cd", 3)


cdef class Format:

    def __cinit__(self, str text not None):
        cdef Operation *operation
        cdef list compiled = compile_format(text)
        self.text = text
        self._kept = []
        self._labels = []
        self.operations = <Operation *>calloc(len(compiled) + 1, sizeof(Operation))
        if self.operations == NULL:
            raise MemoryError
        for part in compiled:
            operation = &self.operations[self.count]
            if isinstance(part, bytes):
                self._kept.append(part)
                operation.kind = LITERAL
                operation.literal = part
                operation.length = <uint32_t>len(part)
            elif isinstance(part, str):
                operation.kind = METADATA
                self._labels.append((self.count, part))
            else:
                operation.kind = <uint32_t>part
            self.count += 1

    cpdef resolve(self, config):
        cdef LabelHandle handle
        for operation, label in self._labels:
            handle = resolve_label(config, label)
            self._kept.append(handle)
            self.operations[<uint32_t>operation].label = &handle.label

    def __dealloc__(self):
        free(self.operations)


def compile_format(str form not None) -> list:
    """Literal octets and kinds of placeholders, in order. A placeholder is what stands between a brace and the nearest one before it."""
    cdef list operations = []
    cdef str literal = "", word
    rest = form
    while True:
        close = rest.find("}")
        if close < 0:
            literal += rest
            break
        open = rest.rfind("{", 0, close)
        word = rest[open + 1:close] if open >= 0 else ""
        kind = word[1:] if word.startswith("/") and len(word) > 1 else PLACEHOLDERS.get(word)
        if open < 0 or kind is None:
            literal += rest[:close + 1]
        else:
            literal += rest[:open]
            if literal:
                operations.append(printable(literal))
            literal = ""
            operations.append(kind)
        rest = rest[close + 1:]
    if literal:
        operations.append(printable(literal))
    return operations


cdef bytes printable(str text):
    """A query is one line: what would end it or steer a terminal is escaped as in names."""
    return "".join([c if c.isprintable() or c == "\t" else "".join([f"\\{octet:03d}" for octet in c.encode("utf-8", "replace")])
                    for c in text]).encode("utf-8", "backslashreplace")
