"""What a handler that knows the names of a cluster gives to acl."""
from libc.stdint cimport uint8_t
from fastdns.api.query cimport Query
from fastdns.api.text cimport Text

cdef struct ClusterNames:       # it and its state live as long as the handler that gives it
    # Writes the label of each namespace that the answer to q's question may name, in wire form and lower case, each once. `out.full`: these are more than
    # fit, or all. Writes nothing for a name that belongs to none. Called on q's worker.
    void (*namespaces)(const ClusterNames *names, const Query *q, Text *out) noexcept nogil
    # Adds the SOA of the zone that q's name is in to the authority section, where it is a zone of the cluster.
    void (*soa)(const ClusterNames *names, Query *q) noexcept nogil
    const void *state

cdef class ClusterNamesHandle:  # what `cluster_names(guarded=...)` of a handler returns
    cdef ClusterNames names
    cdef public object kept     # what the names borrow from
    cdef public tuple zones     # of the cluster, as text

cdef enum:
    UNSYNCED_CLIENTS = 1        # which pod has an address is not known any more
    UNSYNCED_NAMES = 2          # nor whose address a reverse name is for

cdef class Unsynced:            # set by a thread of the control side; each bit stands for itself
    cdef object __weakref__
    cdef uint8_t flags
