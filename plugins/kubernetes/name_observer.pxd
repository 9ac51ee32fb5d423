"""Which names change with a cluster's objects: told to a cache that stands above, see plugins/cache/_contents.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from fastdns.plugins.cache._contents cimport Contents, SharedContents
from fastdns.plugins.kubernetes.store.records cimport Observer
from fastdns.plugins.kubernetes.store.store cimport Store

cdef struct Ending:             # of names: what follows the labels of a service, or of a namespace
    uint8_t world               # of the services
    uint8_t length
    uint8_t wire[255]           # lower case

cdef struct Endings:
    Ending *endings             # owned
    uint32_t count

cdef struct Told:
    Observer observer           # first
    Contents *contents          # of the cache; borrowed from NameObserver.contents
    Endings services
    Endings namespaces
    uint8_t reverse

cdef class NameObserver:
    cdef Told told
    cdef readonly list cuts
    cdef Store store
    cdef SharedContents contents    # NULL while it does not observe
