"""Writing the store: endpoint slices, pods, and the nodes that both name."""
from libc.stdint cimport uint32_t
from fastdns.plugins.kubernetes.store.namespaces cimport EventResult
from fastdns.plugins.kubernetes.decode.objects cimport Object, Pod, Slice
from fastdns.plugins.kubernetes.store.records cimport Cluster

cdef void slices_begin(Cluster *cluster) noexcept nogil
cdef EventResult slice_upsert(Cluster *cluster, int world, const Slice *object) noexcept nogil
cdef EventResult slice_remove(Cluster *cluster, int world, const Object *object) noexcept nogil
cdef uint32_t slice_sweep(Cluster *cluster, int world) noexcept nogil
cdef EventResult pod_upsert(Cluster *cluster, const Pod *object) noexcept nogil
cdef EventResult pod_remove(Cluster *cluster, const Object *object) noexcept nogil
cdef uint32_t pod_sweep(Cluster *cluster) noexcept nogil
cdef void slices_end(Cluster *cluster) noexcept nogil
