"""Writing the text of templates; see _render.pxd. What they compute lies in the thread's arena, so rendering allocates nothing."""
from libc.stdint cimport int64_t, uint16_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from fastdns.api.metadata cimport LabelHandle
from fastdns.api.expression cimport (VALUE_ARRAY, VALUE_FLOAT, VALUE_INT, VALUE_MAP, VALUE_NIL, VALUE_OBJECT, VALUE_STRING, Output, ValueArena, Value,
                                     map_find, output_put, output_value, output_word, arena_count_step, set_bool, set_int, set_nil)
from fastdns.plugins.template._fields cimport (NIL_POINTER, OBJECT_QUESTION, OBJECT_ROOT, OBJECT_TYPES, Data, field_number, object_field,
                                               question_struct, question_text)
from fastdns.plugins.template._functions cimport REASON_SIZE, call_function, is_true, type_name

from fastdns.walk.metadata import resolve
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
    ValueArena *arena
    Output *out
    char *error
    Value dot
    Value variables[VARIABLES_MAX]
    uint32_t calls


cdef int render(const Tree *tree, const Data *data, ValueArena *arena, Output *out, char *error) noexcept nogil:
    cdef State state
    state.tree, state.data, state.arena, state.out, state.error, state.calls = tree, data, arena, out, error, 0
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
    if not arena_count_step(state.arena):
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
        if value.number == OBJECT_QUESTION and question_text(state.data, state.arena, &text) == 0:
            output_put(state.out, text.text, text.length)
    elif value.kind == VALUE_ARRAY and value.length and value.items[0].kind == VALUE_OBJECT:
        output_word(state.out, b"[")
        for i in range(value.length):
            if value.items[i].number == OBJECT_QUESTION and question_struct(state.data, state.arena, &text) == 0:
                output_put(state.out, text.text, text.length)
        output_word(state.out, b"]")
    else:
        output_value(state.out, value)


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
    if not arena_count_step(state.arena):
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
        if call_function(state.arena, <uint32_t>node.slot, arguments, node.count, out, reason) < 0:
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
        status = object_field(state.data, state.arena, &base, node.slot, node.label, node.operation == OP_METHOD and node.count == 2, out)
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
            made.slot = field_number(value)
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
