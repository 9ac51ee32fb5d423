"""The query log: a format compiled into operations, run for each query after its reply is fitted."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from fastdns.api.query cimport Handler, NativeHandler, Query, handler_init, query_was_dropped
from fastdns.api.reply cimport KIND_DELEGATION, KIND_NAMEERROR, KIND_NODATA, KIND_NOERROR, ReplyKind, reply_kind
from fastdns.api.names cimport NAME_MAX
from fastdns.api.wire cimport flags_opcode
from fastdns.api.log cimport LOG_LINE_MAX, log_put
from fastdns.api.metadata cimport Format, Label, LabelHandle, Operation, format_write
from fastdns.api.text cimport Text, text_put, text_string

from fastdns._wire import name_wire

cdef enum:                      # Rule.classes
    SUCCESS = 1
    DENIAL = 2
    ERROR = 4

#: Words of `class`.
CLASSES = {"success": SUCCESS, "denial": DENIAL, "error": ERROR, "all": SUCCESS | DENIAL | ERROR}

cdef struct Rule:
    uint8_t labels              # of the scope; 0: every name
    uint8_t length
    uint8_t scope[NAME_MAX]     # wire form, lower case
    uint32_t classes
    uint32_t count
    const Operation *operations  # borrowed from the rule's Format

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


cdef uint32_t class_of(const Query *q) noexcept nogil:
    """spec/server.md 13."""
    cdef ReplyKind kind
    if query_was_dropped(q):
        return ERROR
    kind = reply_kind(&q.reply, q.qtype, flags_opcode(q.message.flags))
    if kind == KIND_NOERROR or kind == KIND_DELEGATION:
        return SUCCESS
    if kind == KIND_NAMEERROR or kind == KIND_NODATA:
        return DENIAL
    return ERROR


# ---- metadata: what the answer is, once it is made ----

cdef const char *KINDS[8]
KINDS[:] = [b"NOERROR", b"NXDOMAIN", b"NODATA", b"SERVERERROR", b"DELEGATION", b"META", b"UPDATE", b"OTHERERROR"]


cdef bint publish_type(const Label *label, Query *q, Text *out) noexcept nogil:
    if query_was_dropped(q):
        return False
    text_string(out, KINDS[<int>reply_kind(&q.reply, q.qtype, flags_opcode(q.message.flags))])
    return True


cdef bint publish_class(const Label *label, Query *q, Text *out) noexcept nogil:
    cdef uint32_t found = class_of(q)
    text_string(out, b"success" if found == SUCCESS else b"denial" if found == DENIAL else b"error")
    return True


cdef void write_line(const Rule *rule, Query *q) noexcept nogil:
    cdef char line[LOG_LINE_MAX]
    cdef Text text
    text.out, text.used, text.capacity, text.full = line, 0, LOG_LINE_MAX, 0
    text_put(&text, b"[INFO] ", 7)
    format_write(rule.operations, rule.count, &text, q, True)
    log_put(q.worker.id, line, text.used)


cdef class QueryLog(NativeHandler):
    """QueryLog(name, rules): each rule is (zone, set of classes, Format)."""
    cdef State state
    cdef list _formats

    def __cinit__(self, name, list rules):
        handler_init(self)
        cdef Rule *rule
        cdef Format form
        self._formats = []
        self.state.rules = <Rule *>calloc(len(rules) + 1, sizeof(Rule))
        if self.state.rules == NULL:
            raise MemoryError
        for zone, classes, form in rules:
            rule = &self.state.rules[self.state.count]
            wire = name_wire(zone.lower())
            memcpy(rule.scope, <const char *>wire, len(wire))
            rule.length = <uint8_t>len(wire)
            rule.labels = count_labels(rule.scope)
            for word in classes:
                rule.classes |= <uint32_t>CLASSES[word]
            self._formats.append(form)
            rule.operations = form.operations
            rule.count = form.count
            self.state.count += 1
        self.handler.done = log_done
        self.handler.state = &self.state

    def __init__(self, str name, list rules):
        super().__init__(name)

    def resolve(self, config):
        for form in self._formats:
            form.resolve(config)

    def label(self, str name):
        cdef LabelHandle handle
        if name not in ("type", "class"):
            return None
        handle = LabelHandle()
        handle.anywhere = True
        handle.label.value = publish_type if name == "type" else publish_class
        return handle

    def __dealloc__(self):
        free(self.state.rules)


cdef uint8_t count_labels(const uint8_t *wire) noexcept nogil:
    cdef uint8_t labels = 0
    while wire[0]:
        wire += wire[0] + 1
        labels += 1
    return labels
