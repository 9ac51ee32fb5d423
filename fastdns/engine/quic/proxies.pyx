"""The proxies of a connection. The contract is in engine/quic/proxies.pxd."""
from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc
from fastdns.engine.quic.output cimport is_same
from fastdns.engine.quic.state cimport PATHS_MAX


cdef void proxies_learn(Proxies **proxies, const QuicPath *path, const Address *kept) noexcept nogil:
    cdef Proxies *known = proxies[0]
    cdef uint32_t i
    if known == NULL:
        known = proxies[0] = <Proxies *>calloc(1, sizeof(Proxies))
        if known == NULL:
            return
    for i in range(known.count):
        if is_same(&known.clients[i], &path.client):
            known.peers[i] = path.peer
            return
    if known.count < PATHS_MAX:
        i = known.count
        known.count += 1
    else:
        if is_same(&known.clients[known.next], kept):
            known.next = (known.next + 1) % PATHS_MAX
        i = known.next
        known.next = (known.next + 1) % PATHS_MAX
    known.clients[i] = path.client
    known.peers[i] = path.peer


cdef const Address *proxies_find(const Proxies *proxies, const Address *client) noexcept nogil:
    cdef uint32_t i
    for i in range(proxies.count):
        if is_same(&proxies.clients[i], client):
            return &proxies.peers[i]
    return client
