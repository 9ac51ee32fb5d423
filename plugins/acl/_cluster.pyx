"""What a handler that knows the names of a cluster gives to acl; see _cluster.pxd."""


cdef class ClusterNamesHandle:
    pass
