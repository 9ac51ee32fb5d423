"""What changes of a zone of a cluster: the records of services are compared as they were before and are after a number of changes."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.plugins.kubernetes._handler cimport ViewHandler
from fastdns.plugins.kubernetes.store.records cimport Cluster, Observer
from fastdns.plugins.kubernetes.zone.content cimport Content
from fastdns.plugins.kubernetes.zone.rows cimport RowSet
from fastdns.plugins.kubernetes.zone.trimmed cimport Trimmed
from fastdns.plugins.transfer._digest cimport ContentDigest

cdef struct Touched:                # a service that has changed since the last version
    uint8_t world
    uint8_t length
    uint8_t key[128]                # as ServiceNode.key
    uint8_t hashed                  # its records in the last version are in Tracker.pending, and not in `before`
    RowSet before                   # its records in the last version; sorted

cdef struct Tracker:
    Observer observer               # first
    Content content
    Cluster *cluster
    uint32_t *serials               # of the view; where the zone's is published
    Touched *touched
    uint32_t count
    uint32_t room
    uint32_t *slots                 # numbers in touched, plus 1, by hash of the key; 0: free
    uint32_t mask
    RowSet servers                  # NS records and their addresses in the last version; sorted
    RowSet namespaces               # of a zone of objects: the records of namespaces in the last version; sorted
    uint8_t spaces_changed          # ... and whether they have changed since
    RowSet pods_deleted             # of a zone of objects: those of pods that came and went since, each as often as it did
    RowSet pods_added
    ContentDigest digest            # of the last version
    ContentDigest pending           # added to it in the next version, for records that are in no set of rows
    uint32_t pending_records        # their number, modulo 2**32: deleted ones count below 0
    uint8_t flooded                 # there are such records: differences to the next version are not known
    uint64_t octets                 # of all rows in touched
    Trimmed trimmed
    uint32_t records                # of the last version
    uint32_t serial
    uint8_t failed                  # memory ran out: what has changed is not known

cdef class Changes:
    cdef Tracker tracker
    cdef ViewHandler handler        # keeps the view and the store
    cdef bytes zone
    cdef bint observing
    cdef readonly bint too_large
    cdef void _end(self) noexcept
