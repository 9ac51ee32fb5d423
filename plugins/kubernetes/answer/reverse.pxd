"""Reverse names: PTR records of cluster IPs and endpoint addresses."""
from libc.stdint cimport uint8_t
from fastdns.plugins.kubernetes.answer.records cimport Ask

# Adds the PTR records of an address; False is a name error.
cdef bint answer_reverse(Ask *ask, const uint8_t *ip, uint8_t family) noexcept nogil
