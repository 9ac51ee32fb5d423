"""The operations of expressions, and the operators among them that take values and return one. Unless stated otherwise a function returns
EVALUATION_OK with the value in *out, or EVALUATION_ERROR."""
from libc.stdint cimport uint16_t, uint32_t
from fastdns.expression.value cimport ValueArena, Value

cdef enum EvaluationResult:
    EVALUATION_OK = 0
    EVALUATION_ERROR = -1

cdef enum Operation:
    OP_CONSTANT
    OP_LOCAL
    OP_VARIABLE
    OP_POINTER
    OP_ARRAY
    OP_MAP
    OP_NOT
    OP_NEGATIVE
    OP_POSITIVE
    OP_EQUAL
    OP_UNEQUAL
    OP_LESS
    OP_GREATER
    OP_AT_MOST
    OP_AT_LEAST
    OP_AND
    OP_OR
    OP_ADD
    OP_SUBTRACT
    OP_MULTIPLY
    OP_DIVIDE
    OP_REMAINDER
    OP_POWER
    OP_IN
    OP_MATCHES
    OP_MATCH
    OP_CONTAINS
    OP_STARTS
    OP_ENDS
    OP_RANGE
    OP_COALESCE
    OP_CHOICE
    OP_LET
    OP_SEQUENCE
    OP_MEMBER
    OP_OPTIONAL
    OP_SLICE
    OP_TYPE
    OP_CLASS
    OP_NAME
    OP_PROTO
    OP_SIZE
    OP_BUFSIZE
    OP_ID
    OP_OPCODE
    OP_DO
    OP_CLIENT_IP
    OP_SERVER_IP
    OP_PORT
    OP_SERVER_PORT
    OP_INCIDR
    OP_METADATA
    OP_GROUP
    OP_ALL
    OP_NONE
    OP_ANY
    OP_ONE
    OP_FILTER
    OP_EACH
    OP_COUNT
    OP_SUM
    OP_FIND
    OP_FIND_LAST
    OP_FIND_INDEX
    OP_FIND_LAST_INDEX
    OP_GROUP_BY
    OP_SORT_BY
    OP_REDUCE
    OP_FUNCTION                 # a function of expression/functions.pxd; value.number is its number

# + - * / % ** and signs, on strings, numbers, times and durations.
cdef int arithmetic(ValueArena *arena, uint16_t operation, const Value *a, const Value *b, Value *out) noexcept nogil
# matches (with a regular expression that is not constant), contains, startsWith, endsWith.
cdef int text_test(uint16_t operation, const Value *a, const Value *b, Value *out) noexcept nogil
# The operator in: whether a list has an element, or a map a key.
cdef int member_test(const Value *a, const Value *b, Value *out) noexcept nogil
cdef int make_range(ValueArena *arena, const Value *a, const Value *b, Value *out) noexcept nogil
# base.name and base[name]; optional: ?., which gives nil for a nil base.
cdef int take_member(const Value *base, const Value *name, bint optional, Value *out) noexcept nogil
# base[from:to]; arguments: base, from, to.
cdef int take_slice(const Value *arguments, Value *out) noexcept nogil
# sortBy and groupBy. pairs: key and element, alternating, in the arena. The result is the list of elements sorted by key, or a map from each key
# to the list of its elements.
cdef int sort_pairs(Value *pairs, uint32_t count, const Value *order, Value *out) noexcept nogil
cdef int group_pairs(ValueArena *arena, const Value *pairs, uint32_t count, Value *out) noexcept nogil
