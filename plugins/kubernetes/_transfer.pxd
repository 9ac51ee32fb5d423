"""Parts of zone transfers that k8s_external has, too."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.plugins.kubernetes.store.records cimport PortRecord, ServiceNode
from fastdns.plugins.kubernetes.answer.view cimport View

# The services of a world that the view exposes, by name; the caller holds the cluster's lock and frees the array. NULL when memory ran out.
cdef const ServiceNode **services_sorted(const View *view, int world, uint32_t *count) noexcept nogil
# _port._protocol in front of a service's name, in lower case; 0 when it is too long. text is that of the port's record; out has NAME_MAX octets.
cdef uint32_t port_write(uint8_t *out, const char *text, const PortRecord *port, const uint8_t *service, uint32_t length) noexcept nogil
