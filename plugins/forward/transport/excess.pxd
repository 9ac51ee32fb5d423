"""Upstreams that send without end: messages that nobody has asked for, replies that do not end, frames that carry nothing."""
from fastdns.api.metrics cimport Metric
from fastdns.plugins.forward._upstream cimport Connection, Excess, Upstream

# The connection has to end: a metric, a log line (one a minute for each upstream), and `text`, which becomes c.failure. connection_broken follows.
cdef void excess_end(Connection *c, Excess reason, const char *text) noexcept nogil
# The counter of such connections, and an upstream's cells of it; for the set-up of `plugin`.
cdef Metric excess_metric()
cdef int excess_set_cells(Metric metric, Upstream *upstream, str plugin, str to) except -1
