"""Writing the store: which slices and which pods have an address.

What comes all at once, before anything is answered (`Cluster.at_once`), is put there at the end of its list: then it is known how large the tables get,
and the memory of many entries can be fetched at a time.
"""
from libc.stdint cimport uint32_t
from fastdns.plugins.kubernetes.decode.objects cimport Kind
from fastdns.plugins.kubernetes.store.records cimport Cluster, PodRecord, SliceRecord

cdef void addresses_begin(Cluster *cluster) noexcept nogil
# Makes room for those of one more slice; -1 when memory ran out.
cdef int slice_addresses_room(Cluster *cluster, const SliceRecord *record) noexcept nogil
# Adds those of a slice, for which there is room, or removes them.
cdef void slice_addresses_put(Cluster *cluster, const SliceRecord *record, bint remove) noexcept nogil
# Adds that of a pod, which may have none; -1 when memory ran out.
cdef int pod_address_put(Cluster *cluster, const PodRecord *pod) noexcept nogil
# False: it was not there.
cdef bint pod_address_remove(Cluster *cluster, const PodRecord *pod) noexcept nogil
# Puts what came at once there: all that the tables of slices and pods have. -1 when memory ran out.
cdef int addresses_fill(Cluster *cluster, Kind kind) noexcept nogil
