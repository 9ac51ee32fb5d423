"""From the store's records back to objects: what the snapshot writes, and the zone of objects."""
from fastdns.plugins.kubernetes.decode.objects cimport Kind, ObjectSink
from fastdns.plugins.kubernetes.store.records cimport Cluster, NamespaceNode, PodRecord, ServiceNode, SliceRecord

# Hands all standing objects of a kind to a sink as upserts, on the writer's thread. 0, the first status other than 0 that it gave, or -1 when memory ran out.
cdef int replay_kind(Cluster *cluster, Kind kind, const ObjectSink *into, void *into_self) noexcept nogil
# Single ones, likewise: a service or service import (that has a record), a slice of a kind, a pod, a namespace. Each object is made for the call.
cdef int replay_service(const ServiceNode *node, const ObjectSink *into, void *into_self) noexcept nogil
cdef int replay_slice(const SliceRecord *record, Kind kind, const ObjectSink *into, void *into_self) noexcept nogil
cdef int replay_pod(const PodRecord *record, const ObjectSink *into, void *into_self) noexcept nogil
cdef int replay_namespace(const NamespaceNode *node, const ObjectSink *into, void *into_self) noexcept nogil
