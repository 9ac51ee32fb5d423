"""What a handler that knows the names of a cluster gives to acl; see _cluster.pxd."""
from fastdns.api.memory cimport atomic_peek8, atomic_poke8


cdef class ClusterNamesHandle:
    pass


cdef class Unsynced:
    def set(self, bint clients, bint names):
        atomic_poke8(&self.flags, (UNSYNCED_CLIENTS if clients else 0) | (UNSYNCED_NAMES if names else 0))

    @property
    def state(self):
        cdef uint8_t flags = atomic_peek8(&self.flags)
        return flags & UNSYNCED_CLIENTS != 0, flags & UNSYNCED_NAMES != 0
