"""The namespaces that a question is for: what policies compare with the client's."""
from libc.stdint cimport uint16_t
from fastdns.api.names cimport Name
from fastdns.api.network cimport Address
from fastdns.api.text cimport Text
from fastdns.plugins.kubernetes.answer.view cimport View

# Writes the label of each namespace that the answer may name, in wire form and lower case, each once. `out.full`: these are more than fit, or all of the
# zone (transfers). Nothing for a name that belongs to none. The targets of aliases do not count: see View.guarded.
cdef void owners_write(const View *view, const Address *client, const Name *name, uint16_t qtype, Text *out) noexcept nogil
