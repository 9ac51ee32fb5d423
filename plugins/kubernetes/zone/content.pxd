"""The records of a zone, as they are transferred. The caller holds the cluster's lock."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.plugins.kubernetes.store.records cimport PortRecord, ServiceNode
from fastdns.plugins.kubernetes.answer.view cimport View
from fastdns.plugins.kubernetes.zone.rows cimport RowSet
from fastdns.plugins.kubernetes.zone.trimmed cimport Trimmed
from fastdns.plugins.transfer._rows cimport Rows

cdef struct Content:                # a zone of a view
    const View *view
    const uint8_t *zone             # wire form, lower case
    uint32_t zone_length
    int zone_flags

# The world whose services the zone has.
cdef int content_world(const Content *content) noexcept nogil
# Adds the records of a service; none for one that the view does not show.
cdef void content_service(const Content *content, const ServiceNode *node, RowSet *rows) noexcept nogil
# Adds the zone's NS records and the addresses of their names. Without `all`, those addresses are left out that services of the zone have.
cdef void content_servers(const Content *content, bint all, RowSet *rows) noexcept nogil
# Adds the records of all services to those of a transfer, by the services' names; with `once`, each record of a service once. Services with more records
# than a zone has of them are noted in `trimmed`, which may be NULL. False: memory ran out.
cdef bint content_give(const Content *content, bint once, Rows *into, Trimmed *trimmed) noexcept nogil
# The services of a world that the view exposes, by name; the caller frees the array. NULL when memory ran out.
cdef const ServiceNode **services_sorted(const View *view, int world, uint32_t *count) noexcept nogil
# _port._protocol in front of a service's name, in lower case; 0 when it is too long. text is that of the port's record; out has NAME_MAX octets.
cdef uint32_t port_write(uint8_t *out, const char *text, const PortRecord *port, const uint8_t *service, uint32_t length) noexcept nogil
