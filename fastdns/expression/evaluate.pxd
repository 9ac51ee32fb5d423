"""Evaluation of compiled expressions by a worker, for one query."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from fastdns.walk.metadata cimport Label
from fastdns.walk.query cimport Query
from fastdns.expression.matcher cimport Pattern
from fastdns.expression.value cimport ValueArena, Value
from fastdns.expression.question cimport Groups

cdef enum:
    LOCALS_MAX = 32

cdef struct Instruction:        # a node of the expression's tree
    uint16_t operation          # an Operation of expression/operators.pxd
    uint16_t count              # number of operands
    uint32_t first              # index of the first operand in Program.parts
    Value value                 # a constant, or the number of a variable
    const Pattern *pattern      # of `matches` with a constant regular expression
    const Label *label          # of metadata() with a constant label

cdef struct Program:            # owned by its Code
    uint32_t count              # instructions
    Instruction *code
    uint32_t *parts             # operands: indexes of instructions
    uint32_t result             # index of the instruction whose value is the result

cdef struct Loop:               # iteration of a function with a predicate over a list
    const Value *element        # the current one
    int64_t index
    Value accumulated           # of reduce()

cdef struct Evaluation:         # state of one evaluation, on the worker's stack
    Query *q
    ValueArena *arena
    const Program *program
    const Value *variables
    const Groups *groups
    Loop *loop                  # the innermost one
    uint32_t depth              # of nested instructions
    Value locals[LOCALS_MAX]    # of `let`

# Evaluates a program on the query's worker. Values are allocated in arena. EVALUATION_OK with the value in *out, or EVALUATION_ERROR.
cdef int evaluate(const Program *program, Query *q, ValueArena *arena, const Value *variables, const Groups *groups, Value *out) noexcept nogil
# Evaluates a program in the thread's arena. True when the value is true; an error counts as false.
cdef bint evaluate_truth(const Program *program, Query *q) noexcept nogil

cdef class Code:                # Code(source, instructions)
    cdef Program program
    cdef readonly str source
    cdef list kept              # references to the bytes, patterns and labels that the program borrows
    cdef list labels            # (instruction, label of metadata)
    cdef int set_operation(self, Instruction *made, given) except -1
