"""Values of expressions and templates, which a worker computes for one query.

They are allocated in a ValueArena: memory that each thread allocates once and that one evaluation uses at a time. An evaluation that needs more
memory, or takes more steps, than the arena allows fails.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef enum:
    ARENA_SIZE = 262144
    STEPS_MAX = 200000          # steps of one evaluation: instructions executed and elements visited

cdef enum ValueKind:
    VALUE_NIL
    VALUE_BOOL
    VALUE_INT
    VALUE_FLOAT
    VALUE_STRING
    VALUE_ARRAY
    VALUE_MAP                   # pairs of key and value, sorted by key
    VALUE_DURATION              # ns
    VALUE_TIME                  # ns since 1970; `text` is its Location (expression/dates.pxd)
    VALUE_OBJECT                # of templates: number selects the object (plugins/template)
    VALUE_UINT                  # of templates: an unsigned integer above the range of INT
    VALUE_MONTH                 # 1 to 12
    VALUE_WEEKDAY               # 0 (Sunday) to 6
    VALUE_LOCATION              # `text` is a Location

cdef enum:
    MAP_OF_TEXTS = 1            # Value.number of a MAP whose values are all strings: a missing key gives ""; else 0

cdef struct Value:
    uint8_t kind
    uint32_t length             # octets, elements or pairs
    int64_t number              # BOOL, INT, UINT, DURATION, TIME
    double real
    const char *text            # STRING; borrowed from arena, code or query
    Value *items                # ARRAY, MAP; in the arena or the code

cdef struct ValueArena:
    uint8_t *base               # the thread's memory
    uint32_t used               # octets
    uint32_t size               # octets
    uint32_t steps              # steps left

# Initialises arena with the calling thread's memory. False when it cannot be allocated.
cdef bint arena_open(ValueArena *arena) noexcept nogil
cdef void *arena_alloc(ValueArena *arena, uint32_t size) noexcept nogil      # aligned to 8; NULL when it is full

cdef inline bint arena_count_step(ValueArena *arena) noexcept nogil:
    """Counts a step. False when the evaluation has taken STEPS_MAX steps."""
    if arena.steps == 0:
        return False
    arena.steps -= 1
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

# Sets *out to a copy of octets as a STRING. False when the arena is full.
cdef bint copy_text(ValueArena *arena, const char *text, uint32_t length, Value *out) noexcept nogil
cdef bint value_equal(const Value *a, const Value *b) noexcept nogil
# -1, 0 or 1; 2 when the two cannot be compared.
cdef int value_compare(const Value *a, const Value *b) noexcept nogil
cdef int text_compare(const Value *a, const Value *b) noexcept nogil
# The value of a key of a map, or NULL.
cdef const Value *map_find(const Value *map, const char *key, uint32_t length) noexcept nogil
# Sorts the pairs of a map by key, in place. Of pairs with the same key the last one is kept.
cdef void map_sort(Value *map) noexcept nogil

# ---- text ----

cdef struct Output:             # a string that grows at the arena's end: no other allocation is allowed until output_end
    ValueArena *arena
    char *text
    uint32_t length             # octets
    uint32_t limit              # octets
    uint8_t full                # more was written than fits

cdef void output_begin(Output *output, ValueArena *arena) noexcept nogil
cdef bint output_end(Output *output, Value *out) noexcept nogil     # False when it is full
cdef void output_put(Output *output, const char *text, uint32_t length) noexcept nogil
cdef void output_word(Output *output, const char *text) noexcept nogil
cdef void output_number(Output *output, int64_t number) noexcept nogil
cdef void output_float(Output *output, double real, char form, int precision) noexcept nogil     # as strconv.FormatFloat; precision -1: shortest
ctypedef void (*time_printer)(Output *output, const Value *time) noexcept nogil
# Sets the function that prints times; called by expression/dates.pyx at its import.
cdef void set_time_printer(time_printer printer) noexcept
# output_value writes a value as Go's %v, output_quoted octets as strconv.Quote. value_text sets *out to output_value's text; False when the arena
# is full.
cdef void output_value(Output *output, const Value *value) noexcept nogil
cdef void output_quoted(Output *output, const char *text, uint32_t length) noexcept nogil
cdef bint value_text(ValueArena *arena, const Value *value, Value *out) noexcept nogil
