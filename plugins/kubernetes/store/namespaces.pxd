"""Writing the store: namespaces, services and service imports."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from fastdns.plugins.kubernetes.decode.objects cimport Import, Namespace, Object, Service, Span
from fastdns.plugins.kubernetes.store.records cimport Cluster, NamespaceNode, ServiceNode

cdef enum EventResult:                  # of one event
    UNCHANGED
    ADDED
    CHANGED
    REMOVED
    NO_MEMORY

cdef enum:                          # what a changed service moves, for the serials
    MOVES_INTERNAL = 1
    MOVES_EXTERNAL = 2

cdef void nodes_begin(Cluster *cluster) noexcept nogil
# The node of a namespace, made when it is new and `make` is set; NULL when there is none, the name is no label, or memory ran out.
cdef NamespaceNode *namespace_node(Cluster *cluster, Span name, bint make) noexcept nogil
# Drops a node that neither exists as an object nor is named by a record.
cdef void namespace_release(Cluster *cluster, NamespaceNode *node) noexcept nogil
# The node of a service, likewise.
cdef ServiceNode *service_node(Cluster *cluster, int world, Span namespace, Span name, bint make) noexcept nogil
# The same of the service's key (build_key), with its length.
cdef ServiceNode *keyed_service_node(Cluster *cluster, int world, const uint8_t *key, uint32_t length, bint make) noexcept nogil
cdef void service_release(Cluster *cluster, ServiceNode *node) noexcept nogil

cdef inline bint is_late(const Cluster *cluster, int kind, uint64_t version, uint64_t standing) noexcept nogil:
    """Is this an event from before what stands? Lists always win: versions start over when etcd comes back from a backup."""
    return not cluster.listing[<int>kind] and version != 0 and version < standing

cdef EventResult namespace_upsert(Cluster *cluster, const Namespace *object) noexcept nogil
cdef EventResult namespace_remove(Cluster *cluster, const Object *object) noexcept nogil
cdef uint32_t namespace_sweep(Cluster *cluster) noexcept nogil
cdef EventResult service_upsert(Cluster *cluster, const Service *object, int *moves) noexcept nogil
cdef EventResult import_upsert(Cluster *cluster, const Import *object) noexcept nogil
cdef EventResult service_remove(Cluster *cluster, int world, const Object *object) noexcept nogil
cdef uint32_t service_sweep(Cluster *cluster, int world) noexcept nogil
# Frees everything; nobody reads any more.
cdef void nodes_end(Cluster *cluster) noexcept nogil
