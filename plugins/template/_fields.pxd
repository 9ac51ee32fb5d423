"""What templates see of a query: the fields and methods of their data."""
from libc.stdint cimport int32_t, uint16_t, uint32_t
from fastdns.api.query cimport Query
from fastdns.api.metadata cimport Label
from fastdns.api.expression cimport Groups, ValueArena, Value

cdef enum Object:               # Value.number of VALUE_OBJECT
    OBJECT_ROOT
    OBJECT_MESSAGE
    OBJECT_QUESTION
    OBJECT_OPT

cdef enum:
    NIL_POINTER = 1             # Value.number of a NIL that is printed as such

cdef struct Data:               # what the templates of a query see
    Query *q
    const char *zone
    uint32_t zone_length
    const char *name            # lower case, presentation form
    uint32_t name_length
    const char *regex
    uint32_t regex_length
    uint16_t klass
    uint16_t type
    const Groups *groups
    const Value *variables      # of var lines
    const Value *variable_names
    uint32_t variable_count

cdef const char *OBJECT_TYPES[4]    # as Go names them, by Object

# A field, or a method without arguments (called: .Meta with its label), of an OBJECT: 0, -1 when the arena is full, -2 when there is none of
# that number (field_number).
cdef int object_field(const Data *data, ValueArena *arena, const Value *base, int32_t which, const Label *label, bint called, Value *out) noexcept nogil
# The question as a zone file has it, and as Go prints it within a list.
cdef int question_text(const Data *data, ValueArena *arena, Value *out) noexcept nogil
cdef int question_struct(const Data *data, ValueArena *arena, Value *out) noexcept nogil
# The number of a field's name; 0 where no object has it.
cdef int32_t field_number(str name) except -1
