"""Values of expressions and templates: what a worker computes with while it looks at one query.

All lies in a Room, memory that each thread has once and that one evaluation takes at a time; what does not fit ends the evaluation.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef enum:
    ROOM_SIZE = 262144
    STEPS_MAX = 200000          # of one evaluation: nodes visited, elements touched

cdef enum ValueKind:
    VALUE_NIL
    VALUE_BOOL
    VALUE_INT
    VALUE_FLOAT
    VALUE_STRING
    VALUE_ARRAY
    VALUE_MAP                   # pairs of key and value, sorted by key
    VALUE_DURATION              # ns
    VALUE_TIME                  # ns since 1970; `text` is the place that it is shown in (see expression._dates)
    VALUE_OBJECT                # of a template: number says which (see plugins/template)
    VALUE_UINT                  # of a template: above what INT holds
    VALUE_MONTH                 # from 1
    VALUE_WEEKDAY               # from 0, Sunday
    VALUE_LOCATION              # of times, at `text`

cdef enum:
    MAP_OF_TEXTS = 1            # Value.number of a MAP whose values are all texts, so that one that is missing is empty; else 0

cdef struct Value:
    uint8_t kind
    uint32_t length             # octets, elements or pairs
    int64_t number              # BOOL, INT, UINT, DURATION, TIME
    double real
    const char *text            # STRING; borrowed from room, code or query
    Value *items                # ARRAY, MAP; in the room or the code

cdef struct Room:
    uint8_t *base
    uint32_t used
    uint32_t size
    uint32_t steps              # left

# The thread's room, empty; False when memory is out.
cdef bint room_open(Room *room) noexcept nogil
cdef void *room_take(Room *room, uint32_t size) noexcept nogil      # aligned to 8; NULL when it is full

cdef inline bint room_step(Room *room) noexcept nogil:
    """Counts a step; False when there were too many."""
    if room.steps == 0:
        return False
    room.steps -= 1
    return True

cdef inline void set_nil(Value *value) noexcept nogil:
    value.kind = VALUE_NIL
    value.length = 0
    value.number = 0

cdef inline void set_bool(Value *value, bint what) noexcept nogil:
    value.kind = VALUE_BOOL
    value.number = what

cdef inline void set_int(Value *value, int64_t number) noexcept nogil:
    value.kind = VALUE_INT
    value.number = number

cdef inline void set_float(Value *value, double real) noexcept nogil:
    value.kind = VALUE_FLOAT
    value.real = real

cdef inline void set_text(Value *value, const char *text, uint32_t length) noexcept nogil:
    value.kind = VALUE_STRING
    value.text = text
    value.length = length

# A copy of octets as text; False when the room is full.
cdef bint copy_text(Room *room, const char *text, uint32_t length, Value *out) noexcept nogil
cdef bint value_equal(const Value *a, const Value *b) noexcept nogil
# -1, 0 or 1; 2 when they have no order.
cdef int value_compare(const Value *a, const Value *b) noexcept nogil
cdef int text_compare(const Value *a, const Value *b) noexcept nogil
# The value of a key of a map, or NULL.
cdef const Value *map_find(const Value *map, const char *key, uint32_t length) noexcept nogil
# Sorts the pairs of a map by key; a key that comes again replaces the one before.
cdef void map_settle(Value *map) noexcept nogil

# ---- text ----

cdef struct Output:             # grows in the room: nothing else may be taken from it until output_end
    Room *room
    char *text
    uint32_t length
    uint32_t limit
    uint8_t full

cdef void output_begin(Output *output, Room *room) noexcept nogil
cdef bint output_end(Output *output, Value *out) noexcept nogil     # False when it was full
cdef void output_put(Output *output, const char *text, uint32_t length) noexcept nogil
cdef void output_word(Output *output, const char *text) noexcept nogil
cdef void output_number(Output *output, int64_t number) noexcept nogil
cdef void output_float(Output *output, double real, char form, int precision) noexcept nogil     # as strconv.FormatFloat; precision -1: shortest
ctypedef void (*time_printer)(Output *output, const Value *time) noexcept nogil
# What prints times: set by expression._dates.
cdef void set_time_printer(time_printer printer) noexcept
# As fmt's %v; quoted: texts as %q, nothing: what stands for a missing value
cdef void output_value(Output *output, const Value *value) noexcept nogil
cdef void output_quoted(Output *output, const char *text, uint32_t length) noexcept nogil
cdef bint value_text(Room *room, const Value *value, Value *out) noexcept nogil
