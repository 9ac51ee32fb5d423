"""The query log: a format compiled into operations, run for each query after its reply is fitted."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from fastdns.api.query cimport (Handler, NativeHandler, Query, handler_init, query_bufsize, query_do, query_is_udp,
                                query_length, query_was_dropped)
from fastdns.api.reply cimport KIND_DELEGATION, KIND_NAMEERROR, KIND_NODATA, KIND_NOERROR, ReplyKind, reply_kind
from fastdns.api.names cimport NAME_MAX
from fastdns.api.wire cimport flags_opcode
from fastdns.api.log cimport JSON_GROWTH, LOG_FIELDS_MAX, LOG_INFO, LOG_LINE_MAX, json_escape, log_is_json, log_put, log_put_fields
from fastdns.api.metadata cimport Format, Label, LabelHandle, Operation, format_write, label_read
from fastdns.api.network cimport address_text, socket_clock
from fastdns.api.text cimport Text, text_class, text_name, text_number, text_put, text_rcode, text_seconds, text_string, text_type

from fastdns._wire import name_wire

cdef enum:
    PRESENTATION_MAX = 1024     # octets of a name as text
    VALUE_MAX = 255             # octets of what is known of a client
    CLIENT_LABELS = 3

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
    const Label *client[CLIENT_LABELS]  # of the pod that asks, as CLIENT_MEMBERS; owned by the QueryLog's handles; NULL: not known


cdef void log_done(Handler *self, Query *q) noexcept nogil:
    cdef const State *state = <const State *>self.state
    cdef const Rule *rule = state.rules
    cdef const Rule *end = rule + state.count
    while rule < end:
        if not rule.labels or covers(rule, q):
            if rule.classes & class_of(q):
                write_line(state, rule, q)
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


cdef void write_line(const State *state, const Rule *rule, Query *q) noexcept nogil:
    cdef char line[LOG_LINE_MAX]
    cdef Text text
    text.out, text.used, text.capacity, text.full = line, 0, LOG_LINE_MAX, 0
    format_write(rule.operations, rule.count, &text, q, True)
    if log_is_json():
        put_fields(state, q, line, text.used)
    else:
        log_put(q.worker.id, LOG_INFO, NULL, line, text.used)


# ---- JSON ----

cdef const char *CLIENT_MEMBERS[CLIENT_LABELS]
CLIENT_MEMBERS[:] = [b',"client_namespace":"', b',"client_pod":"', b',"client_node":"']


cdef void put_fields(const State *state, Query *q, const char *line, uint32_t length) noexcept nogil:
    """The line with the query and its reply as members, CoreDNS 1.15's, and behind them what is known of the client."""
    cdef char fields[LOG_FIELDS_MAX]
    cdef Text text
    text.out, text.used, text.capacity, text.full = fields, 0, LOG_FIELDS_MAX, 0
    write_question(&text, q)
    text_string(&text, b',"id":')
    text_number(&text, q.message.id)
    text_string(&text, b',"opcode":')
    text_number(&text, flags_opcode(q.message.flags))
    text_string(&text, b',"request_size":')
    text_number(&text, query_length(q))
    text_string(&text, b',"dnssec_ok":')
    text_string(&text, b"true" if query_do(q) else b"false")
    text_string(&text, b',"bufsize":')
    text_number(&text, query_bufsize(q))
    write_reply(&text, q)
    write_client(&text, state, q)
    log_put_fields(q.worker.id, LOG_INFO, b"log", line, length, fields, text.used)


cdef void write_question(Text *text, const Query *q) noexcept nogil:
    cdef char address[64]
    cdef char name[PRESENTATION_MAX]
    cdef char escaped[JSON_GROWTH * PRESENTATION_MAX]
    cdef Text presentation
    presentation.out, presentation.used, presentation.capacity, presentation.full = name, 0, PRESENTATION_MAX, 0
    text_name(&presentation, q.first_name.lower)
    text_string(text, b'"client_ip":"')
    text_put(text, address, <uint32_t>address_text(&q.client, address))
    text_string(text, b'","client_port":')
    text_number(text, q.client.port)
    text_string(text, b',"qname":"')
    text_put(text, escaped, json_escape(escaped, name, presentation.used))  # at most 5 octets for one of the name
    text_string(text, b'","qtype":"')
    text_type(text, q.qtype)
    text_string(text, b'","qclass":"')
    text_class(text, q.qclass)
    text_string(text, b'","protocol":"udp"' if query_is_udp(q) else b'","protocol":"tcp"')


cdef void write_client(Text *text, const State *state, Query *q) noexcept nogil:
    cdef char value[VALUE_MAX]
    cdef char escaped[JSON_GROWTH * VALUE_MAX]
    cdef Text known
    cdef uint32_t i, before
    for i in range(CLIENT_LABELS):
        known.out, known.used, known.capacity, known.full = value, 0, VALUE_MAX, 0
        if state.client[i] == NULL or not label_read(state.client[i], q, &known) or known.full or not known.used:
            continue
        before = text.used
        text_string(text, CLIENT_MEMBERS[i])
        text_put(text, escaped, json_escape(escaped, value, known.used))
        text_put(text, b'"', 1)
        if text.full:           # beside the longest names: a part of a member is no JSON
            text.used, text.full = before, 0


cdef void write_reply(Text *text, const Query *q) noexcept nogil:
    cdef bint dropped = query_was_dropped(q)
    text_string(text, b',"rcode":')
    if dropped:
        text_string(text, b"null")
    else:
        text_put(text, b'"', 1)
        text_rcode(text, q.reply.rcode)
        text_put(text, b'"', 1)
    text_string(text, b',"response_size":')
    text_number(text, 0 if dropped else q.reply.size)
    text_string(text, b',"duration_seconds":')
    text_seconds(text, socket_clock() - q.received)
    text.used -= 1              # the unit


cdef class QueryLog(NativeHandler):
    """QueryLog(name, rules): each rule is (zone, set of classes, Format)."""
    cdef State state
    cdef list _formats
    cdef list _client

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
        self._client = [config.client_label(name) for name in ("client-namespace", "client-pod-name", "client-node-name")]
        for number, handle in enumerate(self._client):
            if handle is not None:
                self.state.client[number] = &(<LabelHandle>handle).label

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
