"""From an object of the API to a record of the store, in the cluster's scratch area. Nothing here is seen by readers."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.plugins.kubernetes.decode.objects cimport Import, Pod, Service, Slice, Span
from fastdns.plugins.kubernetes.store.records cimport Cluster, PodRecord, ServiceRecord, SliceRecord

# Each gives a record in cluster.scratch, its link, version and mark fields zero, and its size in *size. NULL when memory ran out, or when the
# object cannot be in DNS or is beyond the limits of decode/objects.pxd: then *size is 0, and no record of it may stand.
cdef ServiceRecord *build_service(Cluster *cluster, const Service *service, uint32_t *size) noexcept nogil
cdef ServiceRecord *build_import(Cluster *cluster, const Import *service, uint32_t *size) noexcept nogil
cdef SliceRecord *build_slice(Cluster *cluster, const Slice *slice, uint32_t *size) noexcept nogil
cdef PodRecord *build_pod(Cluster *cluster, const Pod *pod, uint32_t *size) noexcept nogil
# The wire form of one label in lower case: its length with the length octet, or 0 when it is none. out has 64 octets.
cdef uint32_t build_label(Span text, uint8_t *out) noexcept nogil
# The labels of a service and its namespace, as in ServiceNode.key; 0 when they are none. out has 128 octets.
cdef uint32_t build_key(Span service, Span namespace, uint8_t *out) noexcept nogil
# Do ports and alias of two services agree? Else the serial of internal zones grows.
cdef bint service_alike(const ServiceRecord *a, const ServiceRecord *b) noexcept nogil
# Do ports and external addresses agree? Else the serial of k8s_external's zones grows.
cdef bint external_alike(const ServiceRecord *a, const ServiceRecord *b) noexcept nogil
