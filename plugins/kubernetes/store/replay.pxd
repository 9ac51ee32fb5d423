"""From the store's records back to objects: what the snapshot writes."""
from fastdns.plugins.kubernetes.decode.objects cimport Kind, ObjectSink
from fastdns.plugins.kubernetes.store.records cimport Cluster

# Hands all standing objects of a kind to a sink as upserts, on the writer's thread. 0, the first status other than 0 that it gave, or -1 when memory ran out.
cdef int replay_kind(Cluster *cluster, Kind kind, const ObjectSink *into, void *into_self) noexcept nogil
