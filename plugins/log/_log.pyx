"""The query log: a format compiled into operations, run for each query after its reply is fitted."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from fastdns._log cimport LOG_LINE_MAX, log_put
from fastdns._metadata cimport Label, LabelHandle, label_read
from fastdns._mux cimport Handler, NativeHandler, Query, query_do, query_is_udp, query_size
from fastdns._reply cimport KIND_DELEGATION, KIND_NAMEERROR, KIND_NODATA, KIND_NOERROR, ReplyKind, reply_kind
from fastdns._socket cimport socket_clock
from fastdns._text cimport (Text, text_address, text_char, text_class, text_name, text_number, text_put, text_rcode, text_seconds, text_string,
                            text_type)
from fastdns._wire cimport FLAG_AA, FLAG_AD, FLAG_CD, FLAG_RA, FLAG_RD, FLAG_TC, NAME_MAX, RCODE_NOERROR

from fastdns._metadata import resolve
from fastdns._wire import name_wire

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

cdef enum:                      # Rule.classes
    SUCCESS = 1
    DENIAL = 2
    ERROR = 4

#: Words of `class`.
CLASSES = {"success": SUCCESS, "denial": DENIAL, "error": ERROR, "all": SUCCESS | DENIAL | ERROR}

cdef struct Operation:
    uint32_t kind               # Kind
    uint32_t length             # of LITERAL
    const char *literal         # borrowed from the rule's bytes
    const Label *label          # of METADATA; borrowed from its handle

cdef struct Rule:
    uint8_t labels              # of the scope; 0: every name
    uint8_t length
    uint8_t scope[NAME_MAX]     # wire form, lower case
    uint32_t classes
    uint32_t count
    Operation *operations       # owned

cdef struct State:
    uint32_t count
    Rule *rules                 # owned


cdef void log_done(Handler *self, Query *q) noexcept nogil:
    cdef const State *state = <const State *>self.state
    cdef const Rule *rule = state.rules
    cdef const Rule *end = rule + state.count
    while rule < end:
        if not rule.labels or covers(rule, q):
            if rule.classes & class_of(q):
                write_line(rule, q)
            return              # the first rule whose scope has the name is the only one
        rule += 1


cdef inline bint covers(const Rule *rule, const Query *q) noexcept nogil:
    if q.first_name.labels < rule.labels:
        return False
    return memcmp(q.first_name.lower + q.first_name.offset[q.first_name.labels - rule.labels], rule.scope, rule.length) == 0


cdef inline bint was_dropped(const Query *q) noexcept nogil:
    """Nothing was written, and nothing will be: a failure has one of four rcodes, never NOERROR."""
    return not q.reply.written and q.reply.rcode == RCODE_NOERROR


cdef uint32_t class_of(const Query *q) noexcept nogil:
    """spec/server.md 13."""
    cdef ReplyKind kind
    if was_dropped(q):
        return ERROR
    kind = reply_kind(&q.reply, q.qtype, (q.message.flags >> 11) & 15)
    if kind == KIND_NOERROR or kind == KIND_DELEGATION:
        return SUCCESS
    if kind == KIND_NAMEERROR or kind == KIND_NODATA:
        return DENIAL
    return ERROR


# ---- metadata: what the answer is, once it is made ----

cdef const char *KINDS[8]
KINDS[:] = [b"NOERROR", b"NXDOMAIN", b"NODATA", b"SERVERERROR", b"DELEGATION", b"META", b"UPDATE", b"OTHERERROR"]


cdef bint publish_type(const Label *label, Query *q, Text *out) noexcept nogil:
    if was_dropped(q):
        return False
    text_string(out, KINDS[<int>reply_kind(&q.reply, q.qtype, (q.message.flags >> 11) & 15)])
    return True


cdef bint publish_class(const Label *label, Query *q, Text *out) noexcept nogil:
    cdef uint32_t found = class_of(q)
    text_string(out, b"success" if found == SUCCESS else b"denial" if found == DENIAL else b"error")
    return True


cdef void write_line(const Rule *rule, Query *q) noexcept nogil:
    cdef char line[LOG_LINE_MAX]
    cdef Text text
    cdef uint32_t i
    text.out, text.used, text.room, text.full = line, 0, LOG_LINE_MAX, 0
    text_put(&text, b"[INFO] ", 7)
    for i in range(rule.count):
        write_value(&text, &rule.operations[i], q)
    log_put(q.worker.id, line, text.used)


cdef void write_value(Text *text, const Operation *operation, Query *q) noexcept nogil:
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
        text_number(text, q.packet_length)
    elif kind == RCODE:
        if was_dropped(q):
            text_char(text, c'-')
        else:
            text_rcode(text, q.reply.rcode)
    elif kind == RSIZE:
        text_number(text, 0 if was_dropped(q) else q.reply.size)
    elif kind == DURATION:
        text_seconds(text, socket_clock() - q.received)
    elif kind == RFLAGS:
        write_flags(text, q)
    elif kind == ID:
        text_number(text, q.message.id)
    elif kind == OPCODE:
        text_number(text, (q.message.flags >> 11) & 15)
    elif kind == DO:
        text_string(text, b"true" if query_do(q) else b"false")
    elif kind == BUFSIZE:
        text_number(text, query_size(q))
    elif operation.label == NULL or not label_read(operation.label, q, text):
        text_char(text, c'-')


cdef void write_flags(Text *text, const Query *q) noexcept nogil:
    cdef uint16_t flags = q.reply.flags
    if was_dropped(q):
        text_char(text, c'-')
        return
    text_put(text, b"qr", 2)
    if (q.message.flags >> 11) & 15 == 0:
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


cdef class QueryLog(NativeHandler):
    """QueryLog(name, rules): each rule is (zone, set of classes, operations) as `compile_format` gives them."""
    cdef State state
    cdef list _kept
    cdef list _labels           # (rule, operation, label of metadata)

    def __cinit__(self, name, list rules):
        cdef Rule *rule
        self._kept = []
        self._labels = []
        self.state.rules = <Rule *>calloc(len(rules) + 1, sizeof(Rule))
        if self.state.rules == NULL:
            raise MemoryError
        for zone, classes, operations in rules:
            rule = &self.state.rules[self.state.count]
            wire = name_wire(zone.lower())
            memcpy(rule.scope, <const char *>wire, len(wire))
            rule.length = <uint8_t>len(wire)
            rule.labels = count_labels(rule.scope)
            for word in classes:
                rule.classes |= <uint32_t>CLASSES[word]
            rule.operations = <Operation *>calloc(len(operations) + 1, sizeof(Operation))
            if rule.operations == NULL:
                raise MemoryError
            for operation in operations:
                if isinstance(operation, bytes):
                    self._kept.append(operation)
                    rule.operations[rule.count].kind = LITERAL
                    rule.operations[rule.count].literal = operation
                    rule.operations[rule.count].length = <uint32_t>len(operation)
                elif isinstance(operation, str):
                    rule.operations[rule.count].kind = METADATA
                    self._labels.append((self.state.count, rule.count, operation))
                else:
                    rule.operations[rule.count].kind = <uint32_t>operation
                rule.count += 1
            self.state.count += 1
        self.handler.done = log_done
        self.handler.state = &self.state

    def __init__(self, str name, list rules):
        super().__init__(name)

    def resolve(self, config):
        cdef LabelHandle handle
        for rule, operation, label in self._labels:
            handle = resolve(config, label)
            self._kept.append(handle)
            self.state.rules[<uint32_t>rule].operations[<uint32_t>operation].label = &handle.label

    def label(self, str name):
        cdef LabelHandle handle
        if name not in ("type", "class"):
            return None
        handle = LabelHandle()
        handle.anywhere = True
        handle.label.value = publish_type if name == "type" else publish_class
        return handle

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.state.count):
            free(self.state.rules[i].operations)
        free(self.state.rules)


cdef uint8_t count_labels(const uint8_t *wire) noexcept nogil:
    cdef uint8_t labels = 0
    while wire[0]:
        wire += wire[0] + 1
        labels += 1
    return labels


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
