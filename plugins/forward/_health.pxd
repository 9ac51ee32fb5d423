"""Health checks: after a failed exchange one worker asks the upstream until it answers."""
from fastdns.plugins.forward._upstream cimport Peer

cdef void health_init(Peer *peer) noexcept nogil
# Begins a cycle of probes, unless one runs, here or on another worker. The first probe leaves at once, the others in steps of `interval`.
cdef void health_begin(Peer *peer) noexcept nogil
# Ends it (the instance goes away).
cdef void health_end(Peer *peer) noexcept nogil
# The probe's exchange has come to its end.
cdef void health_failed(Peer *peer) noexcept nogil
cdef void health_answered(Peer *peer) noexcept nogil
