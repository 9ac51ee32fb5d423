"""Upstreams that send without end. The contract is in transport/excess.pxd."""
from libc.stdint cimport int64_t, uint32_t
from libc.stdio cimport snprintf
from fastdns.api.log cimport LOG_WARNING, log_put
from fastdns.api.memory cimport atomic_peek_ns, atomic_poke_ns
from fastdns.api.metrics cimport Metric, metric_add
from fastdns.api.query cimport ERROR_MAX
from fastdns.api.worker cimport Worker
from fastdns.plugins.forward._upstream cimport EXCESSES

cdef enum:
    SECOND = 1000000000
    LOG_INTERVAL = 60               # seconds between two lines about an upstream

#: Labels, in the order of `Excess`.
REASONS = ("messages", "octets", "frames")


cdef void excess_end(Connection *c, Excess reason, const char *text) noexcept nogil:
    cdef Upstream *upstream = c.peer.upstream
    cdef Worker *worker = c.peer.share.worker
    cdef int64_t logged = atomic_peek_ns(&upstream.excess_logged)
    cdef char line[ERROR_MAX]
    cdef int length
    c.failure = text
    metric_add(upstream.exceeded[<uint32_t>reason], worker.id, 1)
    if logged and worker.now - logged < LOG_INTERVAL * <int64_t>SECOND:
        return
    atomic_poke_ns(&upstream.excess_logged, worker.now)
    length = snprintf(line, sizeof(line), b"connection to %s ended: %s", upstream.text, text)
    log_put(worker.id, LOG_WARNING, c.peer.share.settings.plugin, line, min(<uint32_t>length, <uint32_t>ERROR_MAX - 1))


cdef Metric excess_metric():
    return Metric("fastdns_proxy_connections_ended_total", "Connections that were ended because an upstream sent more than it was asked for.", "counter",
                  ("proxy_name", "to", "reason"))


cdef int excess_set_cells(Metric metric, Upstream *upstream, str plugin, str to) except -1:
    cdef uint32_t i
    for i in range(<uint32_t>EXCESSES):
        upstream.exceeded[i] = metric.cell((plugin, to, REASONS[i]))
    return 0
