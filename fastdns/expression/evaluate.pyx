"""Evaluation of compiled expressions. Values are allocated in the thread's arena. The contract is in expression/evaluate.pxd."""
from libc.stdint cimport int64_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free
from fastdns.walk.metadata cimport LabelHandle
from fastdns.walk.query cimport Query
from fastdns.expression.matcher cimport Regex, regex_match
from fastdns.expression.value cimport (VALUE_ARRAY, VALUE_BOOL, VALUE_LOCATION, VALUE_MAP, VALUE_NIL, VALUE_STRING, ValueArena, Value, map_sort,
                                       arena_open, arena_count_step, arena_alloc, set_bool, set_float, set_int, set_nil, set_text, value_compare, value_equal,
                                       value_text)
from fastdns.expression.dates cimport Zone
from fastdns.expression.functions cimport call_function, function_number
from fastdns.expression.network cimport in_network
from fastdns.expression.operators cimport (OP_CONSTANT, OP_LOCAL, OP_VARIABLE, OP_POINTER, OP_ARRAY, OP_MAP, OP_NOT, OP_NEGATIVE, OP_POSITIVE,
                                           OP_EQUAL, OP_UNEQUAL, OP_LESS, OP_GREATER, OP_AT_MOST, OP_AT_LEAST, OP_AND, OP_OR, OP_ADD, OP_SUBTRACT,
                                           OP_MULTIPLY, OP_DIVIDE, OP_REMAINDER, OP_POWER, OP_IN, OP_MATCHES, OP_MATCH, OP_CONTAINS, OP_STARTS,
                                           OP_ENDS, OP_RANGE, OP_COALESCE, OP_CHOICE, OP_LET, OP_SEQUENCE, OP_MEMBER, OP_OPTIONAL, OP_SLICE, OP_TYPE,
                                           OP_CLASS, OP_NAME, OP_PROTO, OP_SIZE, OP_BUFSIZE, OP_ID, OP_OPCODE, OP_DO, OP_CLIENT_IP, OP_SERVER_IP,
                                           OP_PORT, OP_SERVER_PORT, OP_INCIDR, OP_METADATA, OP_GROUP, OP_ALL, OP_NONE, OP_ANY, OP_ONE, OP_FILTER,
                                           OP_EACH, OP_COUNT, OP_SUM, OP_FIND, OP_FIND_LAST, OP_FIND_INDEX, OP_FIND_LAST_INDEX, OP_GROUP_BY,
                                           OP_SORT_BY, OP_REDUCE, OP_FUNCTION, EVALUATION_ERROR, EVALUATION_OK, arithmetic, group_pairs, make_range,
                                           member_test, sort_pairs, take_member, take_slice, text_test)
from fastdns.expression.question cimport Groups, ask_group, ask_label, ask_query

from fastdns.walk.metadata import resolve
from fastdns.expression import lists, notations, numbers, texts, times

FUNCTIONS = (lists, notations, numbers, texts, times)      # modules that add their functions to the table when they are imported

cdef enum:
    DEPTH_MAX = 400             # nested instructions

#: Operations by the names that the checker gives them; all others are functions.
NUMBERS = {
    "constant": OP_CONSTANT, "local": OP_LOCAL, "variable": OP_VARIABLE, "pointer": OP_POINTER, "array": OP_ARRAY, "map": OP_MAP, "not": OP_NOT,
    "negative": OP_NEGATIVE, "positive": OP_POSITIVE, "equal": OP_EQUAL, "unequal": OP_UNEQUAL, "less": OP_LESS, "greater": OP_GREATER,
    "at most": OP_AT_MOST, "at least": OP_AT_LEAST, "and": OP_AND, "or": OP_OR, "add": OP_ADD, "subtract": OP_SUBTRACT, "multiply": OP_MULTIPLY,
    "divide": OP_DIVIDE, "remainder": OP_REMAINDER, "power": OP_POWER, "in": OP_IN, "matches": OP_MATCHES, "match": OP_MATCH, "contains": OP_CONTAINS,
    "starts with": OP_STARTS, "ends with": OP_ENDS, "range": OP_RANGE, "coalesce": OP_COALESCE, "choice": OP_CHOICE, "let": OP_LET,
    "sequence": OP_SEQUENCE, "member": OP_MEMBER, "optional member": OP_OPTIONAL, "slice": OP_SLICE, "call type": OP_TYPE, "call class": OP_CLASS,
    "call name": OP_NAME, "call proto": OP_PROTO, "call size": OP_SIZE, "call bufsize": OP_BUFSIZE, "call id": OP_ID, "call opcode": OP_OPCODE,
    "call do": OP_DO, "call client_ip": OP_CLIENT_IP, "call server_ip": OP_SERVER_IP, "call port": OP_PORT, "call server_port": OP_SERVER_PORT,
    "call incidr": OP_INCIDR, "call metadata": OP_METADATA, "call group": OP_GROUP, "all": OP_ALL, "none": OP_NONE, "any": OP_ANY, "one": OP_ONE,
    "filter": OP_FILTER, "each": OP_EACH, "count": OP_COUNT, "sum": OP_SUM, "find": OP_FIND, "findLast": OP_FIND_LAST, "findIndex": OP_FIND_INDEX,
    "findLastIndex": OP_FIND_LAST_INDEX, "groupBy": OP_GROUP_BY, "sortBy": OP_SORT_BY, "reduce": OP_REDUCE,
}


cdef int evaluate(const Program *program, Query *q, ValueArena *arena, const Value *variables, const Groups *groups, Value *out) noexcept nogil:
    cdef Evaluation e
    e.q, e.arena, e.program, e.variables, e.groups, e.loop, e.depth = q, arena, program, variables, groups, NULL, 0
    return run(&e, program.result, out)


cdef bint evaluate_truth(const Program *program, Query *q) noexcept nogil:
    cdef ValueArena arena
    cdef Value value
    return arena_open(&arena) and evaluate(program, q, &arena, NULL, NULL, &value) == EVALUATION_OK and value.kind == VALUE_BOOL and value.number != 0


cdef int run(Evaluation *e, uint32_t number, Value *out) noexcept nogil:
    """The value of an instruction."""
    cdef const Instruction *i = &e.program.code[number]
    cdef const uint32_t *parts = e.program.parts + i.first
    cdef uint16_t operation = i.operation
    cdef int status
    if operation == OP_CONSTANT:
        out[0] = i.value
        return EVALUATION_OK
    if e.depth >= DEPTH_MAX or not arena_count_step(e.arena):
        return EVALUATION_ERROR
    e.depth += 1
    if operation >= OP_TYPE and operation <= OP_SERVER_PORT:
        status = ask_query(e.q, operation, e.arena, out)
    elif operation >= OP_ALL and operation <= OP_REDUCE:
        status = run_predicate(e, i, parts, out)
    elif operation >= OP_NOT and operation <= OP_COALESCE:
        status = run_operator(e, i, parts, out)
    else:
        status = run_other(e, i, parts, out)
    e.depth -= 1
    return status


cdef int run_operator(Evaluation *e, const Instruction *i, const uint32_t *parts, Value *out) noexcept nogil:
    cdef Value a, b
    cdef uint16_t operation = i.operation
    cdef int order
    if run(e, parts[0], &a) < 0:
        return EVALUATION_ERROR
    if operation == OP_AND or operation == OP_OR:
        if a.kind != VALUE_BOOL:
            return EVALUATION_ERROR
        if (a.number != 0) != (operation == OP_AND):
            out[0] = a
            return EVALUATION_OK
        if run(e, parts[1], out) < 0 or out.kind != VALUE_BOOL:
            return EVALUATION_ERROR
        return EVALUATION_OK
    if operation == OP_COALESCE:
        if a.kind == VALUE_NIL:
            return run(e, parts[1], out)
        out[0] = a
        return EVALUATION_OK
    if i.count > 1 and run(e, parts[1], &b) < 0:
        return EVALUATION_ERROR
    if operation == OP_EQUAL or operation == OP_UNEQUAL:
        set_bool(out, value_equal(&a, &b) == (operation == OP_EQUAL))
        return EVALUATION_OK
    if operation >= OP_LESS and operation <= OP_AT_LEAST:
        order = value_compare(&a, &b)
        if order == 2:
            return EVALUATION_ERROR
        set_bool(out, order < 0 if operation == OP_LESS else order > 0 if operation == OP_GREATER else order <= 0 if operation == OP_AT_MOST
                 else order >= 0)
        return EVALUATION_OK
    if operation == OP_NOT:
        if a.kind != VALUE_BOOL:
            return EVALUATION_ERROR
        set_bool(out, a.number == 0)
        return EVALUATION_OK
    if operation == OP_MATCHES:
        if a.kind != VALUE_STRING:
            return EVALUATION_ERROR
        set_bool(out, regex_match(i.pattern, a.text, a.length, NULL, 0))
        return EVALUATION_OK
    if operation == OP_IN:
        return member_test(&a, &b, out)
    if operation == OP_RANGE:
        return make_range(e.arena, &a, &b, out)
    if operation >= OP_MATCH and operation <= OP_ENDS:
        return text_test(operation, &a, &b, out)
    return arithmetic(e.arena, operation, &a, &b, out)


# ---- variables, parts, calls ----

cdef int run_other(Evaluation *e, const Instruction *i, const uint32_t *parts, Value *out) noexcept nogil:
    cdef Value a
    cdef Value arguments[8]
    cdef uint32_t n
    cdef uint16_t operation = i.operation
    if operation == OP_LOCAL:
        out[0] = e.locals[i.value.number]
    elif operation == OP_VARIABLE:
        out[0] = e.variables[i.value.number]
    elif operation == OP_POINTER:
        if i.value.number == 0:
            out[0] = e.loop.element[0]
        elif i.value.number == 1:
            set_int(out, e.loop.index)
        else:
            out[0] = e.loop.accumulated
    elif operation == OP_ARRAY or operation == OP_MAP:
        return run_list(e, i, parts, out)
    elif operation == OP_CHOICE:
        if run(e, parts[0], &a) < 0 or a.kind != VALUE_BOOL:
            return EVALUATION_ERROR
        return run(e, parts[1 if a.number else 2], out)
    elif operation == OP_LET:
        if run(e, parts[0], &e.locals[i.value.number]) < 0:
            return EVALUATION_ERROR
        return run(e, parts[1], out)
    elif operation == OP_SEQUENCE:
        for n in range(i.count):
            if run(e, parts[n], out) < 0:
                return EVALUATION_ERROR
    elif operation == OP_METADATA and i.label != NULL:
        return ask_label(i.label, e.q, e.arena, out)
    else:
        # Operations whose operands are all evaluated first.
        if i.count > 8:
            return EVALUATION_ERROR
        for n in range(i.count):
            if run(e, parts[n], &arguments[n]) < 0:
                return EVALUATION_ERROR
        if operation == OP_MEMBER or operation == OP_OPTIONAL:
            return take_member(&arguments[0], &arguments[1], operation == OP_OPTIONAL, out)
        if operation == OP_SLICE:
            return take_slice(arguments, out)
        if operation == OP_INCIDR:
            return in_network(&arguments[0], &arguments[1], out)
        if operation == OP_GROUP:
            return ask_group(e.groups, &arguments[0], out)
        if operation == OP_METADATA:        # the label is not constant: it has no value
            set_text(out, b"", 0)
            return EVALUATION_OK
        return call_function(e.arena, <uint32_t>i.value.number, arguments, i.count, out)
    return EVALUATION_OK


cdef int run_list(Evaluation *e, const Instruction *i, const uint32_t *parts, Value *out) noexcept nogil:
    cdef Value *items = <Value *>arena_alloc(e.arena, i.count * sizeof(Value))
    cdef uint32_t n
    if items == NULL:
        return EVALUATION_ERROR
    for n in range(i.count):
        if run(e, parts[n], &items[n]) < 0:
            return EVALUATION_ERROR
    out.items = items
    out.kind = VALUE_ARRAY
    out.length = i.count
    if i.operation == OP_MAP:
        out.kind = VALUE_MAP
        out.number = 0
        out.length = i.count // 2
        map_sort(out)
    return EVALUATION_OK


# ---- predicates ----

cdef int run_predicate(Evaluation *e, const Instruction *i, const uint32_t *parts, Value *out) noexcept nogil:
    """Functions that evaluate a predicate for each element of a list; in the predicate the element is `#`."""
    cdef Value list_, one
    cdef Value *made = NULL
    cdef uint16_t operation = i.operation
    cdef int64_t at, hits = 0, place = -1
    cdef Loop loop
    cdef bint backwards = operation == OP_FIND_LAST or operation == OP_FIND_LAST_INDEX
    cdef uint32_t n
    if run(e, parts[0], &list_) < 0 or list_.kind != VALUE_ARRAY:
        return EVALUATION_ERROR
    if operation == OP_FILTER or operation == OP_EACH or operation == OP_GROUP_BY or operation == OP_SORT_BY:
        made = <Value *>arena_alloc(e.arena, (list_.length + 1) * 2 * sizeof(Value))
        if made == NULL:
            return EVALUATION_ERROR
    set_int(&loop.accumulated, 0)
    if operation == OP_REDUCE and i.count > 2 and run(e, parts[2], &loop.accumulated) < 0:
        return EVALUATION_ERROR
    n = 0
    if operation == OP_REDUCE and i.count < 3:
        if list_.length == 0:
            return EVALUATION_ERROR
        loop.accumulated = list_.items[0]
        n = 1
    while n < list_.length:
        at = list_.length - 1 - n if backwards else n
        n += 1
        loop.element = &list_.items[at]
        loop.index = at
        if i.count < 2:
            one = loop.element[0]
        elif run_within(e, parts[1], &loop, &one) < 0:
            return EVALUATION_ERROR
        if operation == OP_REDUCE:
            loop.accumulated = one
        elif operation == OP_SUM:
            if arithmetic(e.arena, OP_ADD, &loop.accumulated, &one, &loop.accumulated) < 0:
                return EVALUATION_ERROR
        elif operation == OP_EACH:
            made[hits] = one
            hits += 1
        elif operation == OP_GROUP_BY or operation == OP_SORT_BY:
            made[2 * hits] = one
            made[2 * hits + 1] = list_.items[at]
            hits += 1
        elif one.kind != VALUE_BOOL:
            return EVALUATION_ERROR
        elif one.number:
            if operation == OP_FILTER:
                made[hits] = list_.items[at]
            hits += 1
            place = at
            if operation == OP_ANY or operation == OP_NONE or operation >= OP_FIND and operation <= OP_FIND_LAST_INDEX:
                break
        elif operation == OP_ALL:
            hits = -1
            break
    return finish_predicate(e, i, parts, &list_, made, hits, place, &loop.accumulated, out)


cdef int run_within(Evaluation *e, uint32_t part, Loop *loop, Value *out) noexcept nogil:
    cdef Loop *outer = e.loop
    cdef int status
    e.loop = loop
    status = run(e, part, out)
    e.loop = outer
    return status


cdef int finish_predicate(Evaluation *e, const Instruction *i, const uint32_t *parts, const Value *list_, Value *made, int64_t hits, int64_t place,
                          const Value *accumulated, Value *out) noexcept nogil:
    cdef uint16_t operation = i.operation
    cdef Value order
    if operation == OP_ALL:
        set_bool(out, hits >= 0)
    elif operation == OP_NONE:
        set_bool(out, hits == 0)
    elif operation == OP_ANY:
        set_bool(out, hits > 0)
    elif operation == OP_ONE:
        set_bool(out, hits == 1)
    elif operation == OP_COUNT:
        set_int(out, hits)
    elif operation == OP_SUM or operation == OP_REDUCE:
        out[0] = accumulated[0]
    elif operation == OP_FIND or operation == OP_FIND_LAST:
        if place < 0:
            set_nil(out)
        else:
            out[0] = list_.items[place]
    elif operation == OP_FIND_INDEX or operation == OP_FIND_LAST_INDEX:
        if place < 0:
            set_nil(out)
        else:
            set_int(out, place)
    elif operation == OP_FILTER or operation == OP_EACH:
        out.kind = VALUE_ARRAY
        out.items = made
        out.length = <uint32_t>hits
    elif operation == OP_GROUP_BY:
        return group_pairs(e.arena, made, <uint32_t>hits, out)
    else:
        set_text(&order, b"asc", 3)
        if i.count > 2 and run(e, parts[2], &order) < 0:
            return EVALUATION_ERROR
        return sort_pairs(made, <uint32_t>hits, &order, out)
    return EVALUATION_OK


# ---- set-up ----

cdef class Code:

    def __cinit__(self, str source not None, list instructions not None):
        cdef uint32_t used = 0, i
        cdef Instruction *made
        self.source = source
        self.kept = []
        self.labels = []
        self.program.count = <uint32_t>len(instructions)
        self.program.code = <Instruction *>calloc(self.program.count + 1, sizeof(Instruction))
        self.program.parts = <uint32_t *>calloc(sum(len(given.parts) for given in instructions) + 1, sizeof(uint32_t))
        if self.program.code == NULL or self.program.parts == NULL:
            raise MemoryError
        for i, given in enumerate(instructions):
            if given.operation == "result":
                self.program.result = given.parts[0]
                continue
            made = &self.program.code[i]
            made.first = used
            made.count = <uint16_t>len(given.parts)
            for part in given.parts:
                self.program.parts[used] = part
                used += 1
            self.set_operation(made, given)
        for i, given in enumerate(instructions):
            made = &self.program.code[i]
            if made.operation == OP_METADATA and self.program.code[self.program.parts[made.first]].operation == OP_CONSTANT:
                self.labels.append((i, instructions[given.parts[0]].value))

    def __dealloc__(self):
        free(self.program.code)
        free(self.program.parts)

    def resolve(self, config):
        """Looks up the metadata labels that the expression names, before the chain is published."""
        cdef LabelHandle handle
        for number, label in self.labels:
            handle = resolve(config, label)
            self.kept.append(handle)
            self.program.code[<uint32_t>number].label = &handle.label

    cdef int set_operation(self, Instruction *made, given) except -1:
        cdef bytes text
        number = NUMBERS.get(given.operation)
        value = given.value
        if given.operation == "place":
            made.operation = OP_CONSTANT
            made.value.kind = VALUE_LOCATION
            made.value.text = NULL
            if value is not None:
                self.kept.append(value)
                made.value.text = <const char *>&(<Zone?>value).location
            return 0
        if number is None:
            made.operation = OP_FUNCTION
            set_int(&made.value, function_number(given.operation))
            return 0
        made.operation = number
        if made.operation == OP_MATCHES:
            self.kept.append(value)
            made.pattern = &(<Regex?>value).pattern
        elif value is None:
            set_nil(&made.value)
        elif isinstance(value, bool):
            set_bool(&made.value, value)
        elif isinstance(value, int):
            set_int(&made.value, value)
        elif isinstance(value, float):
            set_float(&made.value, value)
        else:
            text = value.encode("utf-8", "surrogateescape")
            self.kept.append(text)
            set_text(&made.value, text, <uint32_t>len(text))
        return 0


def evaluate_text(Code code not None) -> str:
    cdef ValueArena arena
    cdef Value value
    cdef Value text
    if not arena_open(&arena):
        raise MemoryError
    if evaluate(&code.program, NULL, &arena, NULL, NULL, &value) < 0 or not value_text(&arena, &value, &text):
        raise ValueError("the expression fails")
    return text.text[:text.length].decode("utf-8", "replace")
