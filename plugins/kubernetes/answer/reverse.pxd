"""Reverse names: PTR records of cluster IPs and endpoint addresses."""
from libc.stdint cimport uint8_t
from fastdns.plugins.kubernetes.answer.records cimport Ask
from fastdns.plugins.kubernetes.store.records cimport NamespaceNode

# Whether PTR answers may name services of this namespace. context is the View. The property `namespaces` counts here, the mere absence of a namespace does not.
cdef bint accepts(const void *context, const NamespaceNode *namespace) noexcept nogil
# Adds the PTR records of an address; False is a name error.
cdef bint answer_reverse(Ask *ask, const uint8_t *ip, uint8_t family) noexcept nogil
