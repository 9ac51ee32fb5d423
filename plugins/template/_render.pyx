"""Writing the text of templates; see _render.pxd. What they compute lies in the thread's room, so rendering allocates nothing."""
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from fastdns._metadata cimport LabelHandle, label_read
from fastdns._mux cimport Query
from fastdns._text cimport Text, text_address, text_char, text_class, text_name, text_string, text_type
from fastdns._value cimport (MAP_OF_TEXTS, VALUE_ARRAY, VALUE_FLOAT, VALUE_INT, VALUE_MAP, VALUE_NIL, VALUE_OBJECT, VALUE_STRING, Output, Room, Value,
                             copy_text, map_find, map_settle, output_number, output_put, output_value, output_word, room_step, room_take, set_bool,
                             set_int, set_nil, set_text)
from fastdns._wire cimport FLAG_AA, FLAG_AD, FLAG_CD, FLAG_QR, FLAG_RA, FLAG_RD, FLAG_TC, FLAG_Z
from fastdns.plugins.template._functions cimport REASON_SIZE, call_function, is_true, type_name

from fastdns._metadata import resolve
from fastdns.plugins.template.language import parse

cdef enum Operation:
    OP_LIST
    OP_TEXT
    OP_PRINT
    OP_SET
    OP_IF
    OP_WITH
    OP_RANGE
    OP_BREAK
    OP_CONTINUE
    OP_TEMPLATE
    OP_CONSTANT
    OP_DOT
    OP_VARIABLE
    OP_FIELD
    OP_METHOD
    OP_CALL
    OP_AND
    OP_OR
    OP_FAIL

OPERATIONS = {
    "list": OP_LIST, "text": OP_TEXT, "print": OP_PRINT, "set": OP_SET, "if": OP_IF, "with": OP_WITH, "range": OP_RANGE, "break": OP_BREAK,
    "continue": OP_CONTINUE, "template": OP_TEMPLATE, "constant": OP_CONSTANT, "dot": OP_DOT, "variable": OP_VARIABLE, "field": OP_FIELD,
    "method": OP_METHOD, "call": OP_CALL, "and": OP_AND, "or": OP_OR, "fail": OP_FAIL,
}

cdef enum Object:               # Value.number of VALUE_OBJECT
    OBJECT_ROOT
    OBJECT_MESSAGE
    OBJECT_QUESTION
    OBJECT_OPT

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

cdef enum:
    NIL_POINTER = 1             # Value.number of a NIL that is printed as such

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

cdef enum Flow:                 # what a statement leads to
    FLOW_FAILED = -1
    FLOW_ON
    FLOW_BREAK
    FLOW_CONTINUE

cdef enum:
    CALLS_MAX = 50              # of templates within templates
    ARGUMENTS_MAX = 16

cdef struct State:
    const Tree *tree
    const Data *data
    Room *room
    Output *out
    char *error
    Value dot
    Value variables[VARIABLES_MAX]
    uint32_t calls


cdef int render(const Tree *tree, const Data *data, Room *room, Output *out, char *error) noexcept nogil:
    cdef State state
    state.tree, state.data, state.room, state.out, state.error, state.calls = tree, data, room, out, error, 0
    memset(&state.dot, 0, sizeof(Value))
    state.dot.kind = VALUE_OBJECT
    state.dot.number = OBJECT_ROOT
    state.variables[0] = state.dot
    error[0] = 0
    if statement(&state, tree.root) == FLOW_FAILED:
        if error[0] == 0:
            snprintf(error, ERROR_SIZE, b"template: %s: it takes too long, or too much memory", tree.name)
        return -1
    if out.full:
        snprintf(error, ERROR_SIZE, b"template: %s: the text is too long", tree.name)
        return -1
    return 0


cdef int fail(State *state, const Node *node, const char *reason) noexcept nogil:
    cdef int length = snprintf(state.error, ERROR_SIZE, b"template: %s:%s: executing \"%s\" at <%s>: %s", state.tree.name, node.place, state.tree.name,
                               node.text, reason)
    if length >= ERROR_SIZE:
        state.error[ERROR_SIZE - 1] = 0
    return -1


# ---- statements ----

cdef int statement(State *state, uint32_t number) noexcept nogil:
    cdef const Node *node = &state.tree.nodes[number]
    cdef const uint32_t *parts = state.tree.parts + node.first
    cdef Value value
    cdef uint32_t i
    cdef int flow
    if not room_step(state.room):
        return FLOW_FAILED
    if node.operation == OP_TEXT:
        output_put(state.out, node.value.text, node.value.length)
    elif node.operation == OP_LIST:
        for i in range(node.count):
            flow = statement(state, parts[i])
            if flow != FLOW_ON:
                return flow
    elif node.operation == OP_PRINT or node.operation == OP_SET:
        if evaluate(state, parts[0], &value) < 0:
            return FLOW_FAILED
        if node.operation == OP_SET:
            state.variables[node.slot] = value
        else:
            print_value(state, &value)
    elif node.operation == OP_IF or node.operation == OP_WITH:
        return choose(state, node, parts)
    elif node.operation == OP_RANGE:
        return repeat(state, node, parts)
    elif node.operation == OP_BREAK:
        return FLOW_BREAK
    elif node.operation == OP_CONTINUE:
        return FLOW_CONTINUE
    elif node.operation == OP_TEMPLATE:
        return run_template(state, node, parts)
    else:
        fail(state, node, node.value.text)
        return FLOW_FAILED
    return FLOW_ON


cdef void print_value(State *state, const Value *value) noexcept nogil:
    cdef uint32_t i
    cdef Value text
    if value.kind == VALUE_NIL:
        output_word(state.out, b"<nil>" if value.number == NIL_POINTER else b"<no value>")
    elif value.kind == VALUE_OBJECT:
        if value.number == OBJECT_QUESTION and question_text(state, &text) == 0:
            output_put(state.out, text.text, text.length)
    elif value.kind == VALUE_ARRAY and value.length and value.items[0].kind == VALUE_OBJECT:
        output_word(state.out, b"[")
        for i in range(value.length):
            if value.items[i].number == OBJECT_QUESTION:
                print_question(state)
        output_word(state.out, b"]")
    else:
        output_value(state.out, value)


cdef void print_question(State *state) noexcept nogil:
    """The struct, as Go prints it."""
    cdef char buffer[1100]
    cdef Text text
    text.out, text.used, text.room, text.full = buffer, 0, sizeof(buffer), 0
    text_name(&text, state.data.q.name.wire)
    output_word(state.out, b"{")
    output_put(state.out, buffer, text.used)
    output_word(state.out, b" ")
    output_number(state.out, state.data.q.qtype)
    output_word(state.out, b" ")
    output_number(state.out, state.data.q.qclass)
    output_word(state.out, b"}")


cdef int question_text(State *state, Value *out) noexcept nogil:
    """As in a zone file: ;NAME, CLASS and type."""
    cdef char buffer[1200]
    cdef Text text
    text.out, text.used, text.room, text.full = buffer, 0, sizeof(buffer), 0
    text_char(&text, c';')
    text_name(&text, state.data.q.name.wire)
    text_char(&text, c'\t')
    text_class(&text, state.data.q.qclass)
    text_string(&text, b"\t ")
    text_type(&text, state.data.q.qtype)
    return copied(state, &text, out)


cdef int choose(State *state, const Node *node, const uint32_t *parts) noexcept nogil:
    cdef Value value
    cdef Value dot = state.dot
    cdef int flow
    if evaluate(state, parts[0], &value) < 0:
        return FLOW_FAILED
    if node.slot >= 0:
        state.variables[node.slot] = value
    if not is_true(&value):
        return statement(state, parts[2])
    if node.operation == OP_WITH:
        state.dot = value
    flow = statement(state, parts[1])
    state.dot = dot
    return flow


cdef int repeat(State *state, const Node *node, const uint32_t *parts) noexcept nogil:
    """Over the elements of a list, the values of a map in the order of its keys, or the numbers below one."""
    cdef Value value, index
    cdef Value dot = state.dot
    cdef int64_t i, count
    cdef char reason[REASON_SIZE]
    cdef int flow = FLOW_ON
    if evaluate(state, parts[0], &value) < 0:
        return FLOW_FAILED
    if value.kind == VALUE_INT:
        count = value.number
    elif value.kind == VALUE_ARRAY or value.kind == VALUE_MAP:
        count = value.length
    elif value.kind == VALUE_NIL:
        count = 0
    else:
        snprintf(reason, sizeof(reason), b"range can't iterate over %.*s", <int>(min(value.length, <uint32_t>64) if value.kind == VALUE_STRING else 0),
                 value.text)
        if value.kind == VALUE_FLOAT:
            snprintf(reason, sizeof(reason), b"range can't iterate over %g", value.real)
        fail(state, node, reason)
        return FLOW_FAILED
    if count <= 0:
        return statement(state, parts[2])
    for i in range(count):
        set_int(&index, i)
        if value.kind == VALUE_INT:
            set_int(&state.dot, i)
        elif value.kind == VALUE_ARRAY:
            state.dot = value.items[i]
        else:
            index = value.items[2 * i]
            state.dot = value.items[2 * i + 1]
        if node.slot >= 0:
            state.variables[node.slot] = state.dot
        if node.other >= 0:
            state.variables[node.other] = index
        flow = statement(state, parts[1])
        if flow == FLOW_FAILED or flow == FLOW_BREAK:
            break
    state.dot = dot
    return FLOW_FAILED if flow == FLOW_FAILED else FLOW_ON


cdef int run_template(State *state, const Node *node, const uint32_t *parts) noexcept nogil:
    """Another template, with a dot and variables of its own."""
    cdef Value dot = state.dot
    cdef Value argument
    cdef Value variables[VARIABLES_MAX]
    cdef int flow
    if evaluate(state, parts[0], &argument) < 0:
        return FLOW_FAILED
    if state.calls >= CALLS_MAX:
        fail(state, node, b"exceeded maximum template depth (50)")
        return FLOW_FAILED
    if state.tree.nodes[state.tree.templates[node.slot]].operation == OP_FAIL:       # it is not defined
        fail(state, node, state.tree.nodes[state.tree.templates[node.slot]].value.text)
        return FLOW_FAILED
    memcpy(variables, state.variables, sizeof(variables))
    state.calls += 1
    state.dot = argument
    state.variables[0] = argument
    flow = statement(state, state.tree.templates[node.slot])
    state.calls -= 1
    state.dot = dot
    memcpy(state.variables, variables, sizeof(variables))
    return FLOW_FAILED if flow == FLOW_FAILED else FLOW_ON


# ---- values ----

cdef int evaluate(State *state, uint32_t number, Value *out) noexcept nogil:
    cdef const Node *node = &state.tree.nodes[number]
    cdef const uint32_t *parts = state.tree.parts + node.first
    cdef Value arguments[ARGUMENTS_MAX]
    cdef char reason[REASON_SIZE]
    cdef uint32_t i
    if not room_step(state.room):
        return -1
    if node.operation == OP_CONSTANT:
        out[0] = node.value
    elif node.operation == OP_DOT:
        out[0] = state.dot
    elif node.operation == OP_VARIABLE:
        out[0] = state.variables[node.slot]
    elif node.operation == OP_FIELD or node.operation == OP_METHOD:
        return field(state, node, parts, out)
    elif node.operation == OP_AND or node.operation == OP_OR:
        set_nil(out)
        for i in range(node.count):
            if evaluate(state, parts[i], out) < 0:
                return -1
            if is_true(out) == (node.operation == OP_OR):
                break
    elif node.operation == OP_CALL:
        if node.count > ARGUMENTS_MAX:
            return fail(state, node, b"too many arguments")
        for i in range(node.count):
            if evaluate(state, parts[i], &arguments[i]) < 0:
                return -1
        reason[0] = 0
        if call_function(state.room, <uint32_t>node.slot, arguments, node.count, out, reason) < 0:
            return fail(state, node, reason) if reason[0] else -1
    else:
        return fail(state, node, node.value.text)
    return 0


cdef int field(State *state, const Node *node, const uint32_t *parts, Value *out) noexcept nogil:
    cdef Value base
    cdef const Value *found
    cdef const char *kind
    cdef char reason[REASON_SIZE]
    cdef int status = -2
    if evaluate(state, parts[0], &base) < 0:
        return -1
    if base.kind == VALUE_MAP:
        found = map_find(&base, node.value.text, node.value.length)
        set_nil(out)
        if found != NULL:
            out[0] = found[0]
        return 0
    if base.kind == VALUE_OBJECT:
        if base.number == OBJECT_ROOT:
            status = root_field(state, node, parts, out)
        elif base.number == OBJECT_QUESTION:
            status = question_field(state, node.slot, out)
        elif base.number == OBJECT_MESSAGE:
            status = message_field(state, node.slot, out)
        else:
            status = opt_field(state, node.slot, out)
        if status != -2:
            return status
        kind = OBJECT_TYPES[base.number]
    elif base.kind == VALUE_NIL:
        snprintf(reason, sizeof(reason), b"nil pointer evaluating interface {}.%s", node.value.text)
        return fail(state, node, reason)
    else:
        kind = type_name(&base)
    snprintf(reason, sizeof(reason), b"can't evaluate field %s in type %s", node.value.text, kind)
    return fail(state, node, reason)


cdef const char *OBJECT_TYPES[4]
OBJECT_TYPES[:] = [b"*template.templateData", b"*dns.Msg", b"*dns.Question", b"*dns.OPT"]


cdef int copied(State *state, const Text *text, Value *out) noexcept nogil:
    return 0 if copy_text(state.room, text.out, text.used, out) else -1


cdef int root_field(State *state, const Node *node, const uint32_t *parts, Value *out) noexcept nogil:
    cdef const Data *data = state.data
    cdef char buffer[2048]
    cdef Text text
    cdef int32_t which = node.slot
    text.out, text.used, text.room, text.full = buffer, 0, sizeof(buffer), 0
    if which == FIELD_NAME:
        set_text(out, data.name, data.name_length)
    elif which == FIELD_ZONE:
        set_text(out, data.zone, data.zone_length)
    elif which == FIELD_REGEX:
        set_text(out, data.regex, data.regex_length)
    elif which == FIELD_CLASS:
        text_class(&text, data.klass)
        return copied(state, &text, out)
    elif which == FIELD_TYPE:
        text_type(&text, data.type)
        return copied(state, &text, out)
    elif which == FIELD_REMOTE:
        text_address(&text, &data.q.client)
        if buffer[0] == c'[':
            return 0 if copy_text(state.room, buffer + 1, text.used - 2, out) else -1
        return copied(state, &text, out)
    elif which == FIELD_MATCH:
        return groups_list(state, out)
    elif which == FIELD_GROUP:
        return groups_map(state, out)
    elif which == FIELD_VAR:
        return variables_map(state, out)
    elif which == FIELD_MESSAGE or which == FIELD_QUESTION:
        out.kind = VALUE_OBJECT
        out.number = OBJECT_MESSAGE if which == FIELD_MESSAGE else OBJECT_QUESTION
    elif which == FIELD_META and node.operation == OP_METHOD and node.count == 2:
        set_text(out, b"", 0)
        if node.label != NULL and label_read(node.label, data.q, &text):
            return copied(state, &text, out)
    else:
        return -2
    return 0


cdef inline void group_text(const Groups *groups, uint32_t number, Value *out) noexcept nogil:
    set_text(out, b"", 0)
    if number < groups.count and groups.spans[number].start >= 0:
        set_text(out, groups.text + groups.spans[number].start, <uint32_t>(groups.spans[number].end - groups.spans[number].start))


cdef int groups_list(State *state, Value *out) noexcept nogil:
    cdef const Groups *groups = state.data.groups
    cdef Value *items = <Value *>room_take(state.room, <uint32_t>((groups.count + 1) * sizeof(Value)))
    cdef uint32_t i
    if items == NULL:
        return -1
    for i in range(groups.count):
        group_text(groups, i, &items[i])
    out.kind = VALUE_ARRAY
    out.items = items
    out.length = groups.count
    return 0


cdef int groups_map(State *state, Value *out) noexcept nogil:
    """Groups by number, as text, and by name."""
    cdef const Groups *groups = state.data.groups
    cdef uint32_t count = groups.count + groups.name_count, i
    cdef Value *items = <Value *>room_take(state.room, <uint32_t>((2 * count + 1) * sizeof(Value)))
    cdef char digits[12]
    if items == NULL:
        return -1
    for i in range(groups.count):
        if not copy_text(state.room, digits, <uint32_t>snprintf(digits, sizeof(digits), b"%u", i), &items[2 * i]):
            return -1
        group_text(groups, i, &items[2 * i + 1])
    for i in range(groups.name_count):
        items[2 * (groups.count + i)] = groups.names[2 * i]
        group_text(groups, <uint32_t>groups.names[2 * i + 1].number, &items[2 * (groups.count + i) + 1])
    out.kind = VALUE_MAP
    out.number = MAP_OF_TEXTS
    out.items = items
    out.length = count
    map_settle(out)
    return 0


cdef int variables_map(State *state, Value *out) noexcept nogil:
    cdef const Data *data = state.data
    cdef Value *items = <Value *>room_take(state.room, <uint32_t>((2 * data.variable_count + 1) * sizeof(Value)))
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
    map_settle(out)
    return 0


cdef int question_field(State *state, int32_t which, Value *out) noexcept nogil:
    cdef char buffer[1100]
    cdef Text text
    if which == FIELD_NAME:
        text.out, text.used, text.room, text.full = buffer, 0, sizeof(buffer), 0
        text_name(&text, state.data.q.name.wire)
        return copied(state, &text, out)
    if which == FIELD_STRING:
        return question_text(state, out)
    if which == FIELD_QTYPE:
        set_int(out, state.data.q.qtype)
        return 0
    if which == FIELD_QCLASS:
        set_int(out, state.data.q.qclass)
        return 0
    return -2


cdef int message_field(State *state, int32_t which, Value *out) noexcept nogil:
    cdef const Query *q = state.data.q
    cdef uint16_t flag
    if which == FIELD_ID:
        set_int(out, q.message.id)
    elif which == FIELD_OPCODE:
        set_int(out, (q.flags >> 11) & 15)
    elif which == FIELD_RCODE:
        set_int(out, q.flags & 15)
    elif which == FIELD_QUESTION or which == FIELD_NO_RECORDS or which == FIELD_EXTRA:
        out.items = <Value *>room_take(state.room, sizeof(Value))
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
        set_int(out, q.packet_length)
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


cdef int opt_field(State *state, int32_t which, Value *out) noexcept nogil:
    cdef const Query *q = state.data.q
    if which == FIELD_DO:
        set_bool(out, q.edns.flags & 0x8000 != 0)
    elif which == FIELD_UDP_SIZE:
        set_int(out, q.edns.udp_size)
    elif which == FIELD_VERSION:
        set_int(out, q.edns.version)
    else:
        return -2
    return 0


# ---- set-up ----

cdef class Source:

    def __cinit__(self, str name not None, str text not None):
        self.text = text
        self.kept = [name.encode()]
        self.labels = []
        self.nodes = []
        self.tree.name = <const char *><bytes>self.kept[0]
        root, defined = parse(name, text)
        self.tree.root = self.add(root)
        numbers = [self.add(tree) for tree in defined]
        self.tree.nodes = <Node *>calloc(len(self.nodes) + 1, sizeof(Node))
        self.tree.parts = <uint32_t *>calloc(sum(len(parts) for _, parts in self.nodes) + 1, sizeof(uint32_t))
        self.tree.templates = <uint32_t *>calloc(len(numbers) + 1, sizeof(uint32_t))
        if self.tree.nodes == NULL or self.tree.parts == NULL or self.tree.templates == NULL:
            raise MemoryError
        for i, number in enumerate(numbers):
            self.tree.templates[<uint32_t>i] = number
        self.fill()

    def __dealloc__(self):
        free(self.tree.nodes)
        free(self.tree.parts)
        free(self.tree.templates)

    def resolve(self, config):
        """Looks up the labels of metadata that `.Meta` names; before the chain is published."""
        cdef LabelHandle handle
        for number, label in self.labels:
            handle = resolve(config, label)
            self.kept.append(handle)
            self.tree.nodes[<uint32_t>number].label = &handle.label

    cdef uint32_t add(self, node) except? 0xFFFFFFFF:
        """Numbers a node behind its parts."""
        parts = [self.add(part) for part in node.parts]
        self.nodes.append((node, parts))
        return <uint32_t>len(self.nodes) - 1

    def fill(self):
        cdef Node *made
        cdef uint32_t used = 0, i
        for i, (node, parts) in enumerate(self.nodes):
            made = &self.tree.nodes[i]
            made.operation = OPERATIONS[node.operation]
            made.first = used
            made.count = <uint16_t>len(parts)
            for part in parts:
                self.tree.parts[used] = part
                used += 1
            made.slot = made.other = -1
            made.place = self.keep(node.place)
            made.text = self.keep(node.text)
            self.set_value(made, node)
            if node.operation == "method" and node.value == "Meta" and len(parts) == 2 and isinstance(node.parts[1].value, str):
                self.labels.append((i, node.parts[1].value))
        self.nodes = []

    cdef const char *keep(self, str text) except NULL:
        octets = text.encode("utf-8", "surrogateescape")
        self.kept.append(octets)
        return <const char *><bytes>octets

    cdef int set_value(self, Node *made, node) except -1:
        value = node.value
        if node.operation in ("field", "method"):
            made.slot = FIELDS.get(value, FIELD_OTHER)
        elif node.operation in ("set", "variable", "call", "template"):
            made.slot = value
            return 0
        elif node.operation in ("if", "with", "range"):
            made.slot, made.other = value
            return 0
        if isinstance(value, str):
            made.value.kind = VALUE_STRING
            made.value.text = self.keep(value)
            made.value.length = <uint32_t>len(<bytes>self.kept[len(self.kept) - 1])
        elif isinstance(value, bool):
            set_bool(&made.value, value)
        elif isinstance(value, int):
            set_int(&made.value, value)
        elif isinstance(value, float):
            made.value.kind = VALUE_FLOAT
            made.value.real = value
        else:
            set_nil(&made.value)
        return 0
