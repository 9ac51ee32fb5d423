"""Messages of dnstap about upstreams. The contract is in _taps.pxd."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.string cimport memset
from posix.time cimport CLOCK_REALTIME, clock_gettime, timespec

from fastdns.api.network cimport Address, address_from_socket, getsockname, sockaddr, sockaddr_in6, socket_clock, socklen_t
from fastdns.plugins.dnstap._tap cimport TAP_FORWARDER_QUERY, TAP_FORWARDER_RESPONSE, Tap, Tapped
from fastdns.plugins.forward._upstream cimport Exchange, WAY_SHARED, WAY_NONE, WAY_PAUSE, WAY_UDP


cdef void taps_tell(Tap **taps, uint32_t count, Exchange *e, const uint8_t *packet, uint32_t length) noexcept nogil:
    """A question over another worker's connection is reported there."""
    cdef Address own
    cdef Address upstream
    cdef Tapped query
    cdef Tapped response
    cdef timespec now
    cdef uint32_t i
    if e.way == WAY_NONE or e.way == WAY_PAUSE or e.way == WAY_SHARED:
        return
    clock_gettime(CLOCK_REALTIME, &now)
    memset(&query, 0, sizeof(Tapped))
    query.type = TAP_FORWARDER_QUERY
    query.udp = e.way == WAY_UDP or e.upstream.quic != NULL
    address_from_socket(&upstream, <const sockaddr_in6 *>e.upstream.address)
    query.response_address = &upstream
    if own_address(e.socket.source.fd if e.way == WAY_UDP else e.connection.source.fd, &own):
        query.query_address = &own
    query.query_time = <int64_t>now.tv_sec * 1000000000 + now.tv_nsec - (socket_clock() - e.asked)
    query.q = e.waiters
    response = query
    response.type = TAP_FORWARDER_RESPONSE
    response.response_time = <int64_t>now.tv_sec * 1000000000 + now.tv_nsec
    for i in range(count):
        query.message = e.request if taps[i].full else NULL
        query.length = e.size
        response.message = packet if taps[i].full else NULL
        response.length = length
        taps[i].put(taps[i], e.share.worker, &query)
        if packet != NULL:
            taps[i].put(taps[i], e.share.worker, &response)


cdef bint own_address(int fd, Address *own) noexcept nogil:
    cdef sockaddr_in6 address
    cdef socklen_t length = sizeof(address)
    memset(&address, 0, sizeof(address))
    if fd < 0 or getsockname(fd, <sockaddr *>&address, &length) < 0:
        return False
    address_from_socket(own, &address)
    return True
