"""The store of one cluster's objects: an ObjectSink that keeps them as records which workers read without locks."""
from fastdns.plugins.kubernetes.decode.objects cimport Kind, ObjectSink, Sink
from fastdns.plugins.kubernetes.store.records cimport Cluster, Observer

cdef class Store(Sink):
    cdef object __weakref__
    cdef Cluster cluster            # borrowed by views: they keep the store alive
    cdef int replay(self, Kind kind, const ObjectSink *into, void *into_self) noexcept nogil

# Keeps the writer out while records are copied; never by a worker, which needs no lock.
cdef void cluster_lock(Cluster *cluster) noexcept nogil
cdef void cluster_unlock(Cluster *cluster) noexcept nogil
# Tells an observer of changes from now on, or no more. Under the lock.
cdef void cluster_observe(Cluster *cluster, Observer *observer) noexcept nogil
cdef void cluster_unobserve(Cluster *cluster, Observer *observer) noexcept nogil
