"""The function incidr of expressions."""
from fastdns.expression.value cimport Value

# incidr(address, network). 0 with a boolean in *out, or -1 when an argument is malformed.
cdef int in_network(const Value *address, const Value *network, Value *out) noexcept nogil
