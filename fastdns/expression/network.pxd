"""Addresses and networks of expressions."""
from fastdns.expression.value cimport Value

# incidr(address, network): 0, or -1 when one of them is none.
cdef int in_network(const Value *address, const Value *network, Value *out) noexcept nogil
