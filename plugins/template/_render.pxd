"""Templates in native form, and writing their text."""
from libc.stdint cimport int32_t, uint16_t, uint32_t
from fastdns.api.metadata cimport Label
from fastdns.api.expression cimport Output, ValueArena, Value
from fastdns.plugins.template._fields cimport Data

cdef enum:
    VARIABLES_MAX = 24
    ERROR_SIZE = 192

cdef struct Node:
    uint16_t operation
    uint16_t count              # of parts
    uint32_t first              # of its parts, in Tree.parts
    int32_t slot                # variable; number of a function, a field or a template; slot of a range's element
    int32_t other               # slot of a range's index
    Value value                 # constant, text, or a field's name
    const Label *label          # of .Meta with a constant label
    const char *place           # for errors
    const char *text

cdef struct Tree:               # owned by its Source
    uint32_t count
    Node *nodes
    uint32_t *parts
    uint32_t root
    uint32_t *templates         # roots of those that it defines
    const char *name            # answer, additional or authority

# Writes a template's text; 0, or -1 with the reason in error (ERROR_SIZE octets).
cdef int render(const Tree *tree, const Data *data, ValueArena *arena, Output *out, char *error) noexcept nogil

cdef class Source:              # Source(name, text): parsed and compiled
    cdef Tree tree
    cdef readonly str text
    cdef list kept
    cdef list labels            # (node, label of metadata)
    cdef list nodes
    cdef uint32_t add(self, node) except? 0xFFFFFFFF
    cdef const char *keep(self, str text) except NULL
    cdef int set_value(self, Node *made, node) except -1
