"""Code of expressions, evaluated for a query."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from fastdns.walk.metadata cimport Label
from fastdns.walk.query cimport Query
from fastdns.expression.matcher cimport Pattern
from fastdns.expression.value cimport Room, Value
from fastdns.expression.question cimport Groups

cdef enum:
    LOCALS_MAX = 32

cdef struct Instruction:
    uint16_t operation
    uint16_t count              # of parts
    uint32_t first              # of its parts, in Program.parts
    Value value                 # constant, or the number of a variable
    const Pattern *pattern
    const Label *label          # of metadata() with a constant label

cdef struct Program:            # owned by its Code
    uint32_t count
    Instruction *code
    uint32_t *parts
    uint32_t result             # the instruction whose value is the whole's

cdef struct Loop:               # a predicate at work
    const Value *element
    int64_t index
    Value accumulated

cdef struct Evaluation:
    Query *q
    Room *room
    const Program *program
    const Value *variables
    const Groups *groups
    Loop *loop                  # the innermost
    uint32_t depth
    Value locals[LOCALS_MAX]

# Evaluates a program: OUTCOME_OK with the value, or OUTCOME_ERROR.
cdef int evaluate(const Program *program, Query *q, Room *room, const Value *variables, const Groups *groups, Value *out) noexcept nogil
# The same, and whether the value is true.
cdef bint evaluate_truth(const Program *program, Query *q) noexcept nogil

cdef class Code:                # Code(source, instructions)
    cdef Program program
    cdef readonly str source
    cdef list kept              # bytes, patterns and labels that the program borrows from
    cdef list labels            # (instruction, label of metadata)
    cdef int set_operation(self, Instruction *made, given) except -1
