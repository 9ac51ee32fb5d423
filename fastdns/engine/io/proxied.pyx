"""The PROXY header of a TCP client. The contract is in engine/io/proxied.pxd."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.errno cimport errno, EAGAIN, EINTR
from fastdns.engine.io.connection cimport (OpenFunc, StreamService, TcpConnection, TcpWorker, connection_begin, connection_end, connection_forget,
                                           service_leave_place, service_ref, service_unref)
from fastdns.engine.io.framing cimport dns_framing
from fastdns.engine.io.transport cimport ListenSocket
from fastdns.proxy.header cimport PROXY_HEADER_MAX, PROXY_MALFORMED, PROXY_PARTIAL, PROXY_PRESENT, ProxyHeader, ProxyStatus
from fastdns.proxy.policy cimport PROXY_SKIP, ProxyPolicy, ProxyRule, proxy_open, proxy_rule, proxy_tlvs
from fastdns.proxy.tlvs cimport ProxyTlvs
from fastdns.system.address cimport Address, address_from_socket
from fastdns.system.socket cimport EPOLLERR, EPOLLHUP, EPOLLIN, SOL_SOCKET, close, recv, setsockopt, sockaddr_in6
from fastdns.walk.query cimport ServerTable, Source, Worker

cdef extern from "<sys/socket.h>" nogil:
    enum: MSG_PEEK
    enum: SO_RCVLOWAT

cdef extern from "<sys/epoll.h>" nogil:
    enum: EPOLLRDHUP


cdef void proxied_begin(TcpWorker *tcp, ListenSocket *sock, StreamService *service, const ProxyPolicy *policy, int fd, const sockaddr_in6 *peer,
                        OpenFunc opened) noexcept nogil:
    cdef Worker *worker = tcp.base.worker
    cdef TcpConnection *connection
    cdef Address client
    cdef ProxyRule rule
    cdef ProxyHeader header
    cdef ProxyStatus status
    cdef ProxyTlvs *tlvs = NULL
    address_from_socket(&client, peer)
    rule = proxy_rule(policy, &client)
    if rule == PROXY_SKIP:
        opened(sock, service, fd, &client, NULL, worker.now, NULL)
        return
    status = take_header(fd, rule, False, &header, policy, worker.id, &tlvs)
    if status != PROXY_PARTIAL:
        open_client(sock, service, fd, &client, worker.now, status, &header, tlvs, opened)
        return
    if service != NULL:
        service_ref(service)
    connection = connection_begin(tcp, &dns_framing, service, NULL, sock.listener, sock.generation, fd, &client, NULL, worker.now)
    if connection == NULL:
        refuse(service, fd)
        if service != NULL:
            service_unref(service)
        return
    connection.source.ready = on_header
    connection.socket = sock
    connection.opened = opened
    connection.rule = rule
    await_octets(fd, header.wanted)
    worker.ops.rewatch(worker, &connection.source, EPOLLIN | EPOLLRDHUP)


cdef void on_header(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    cdef TcpConnection *connection = <TcpConnection *>source
    cdef StreamService *service = connection.service
    cdef int fd = source.fd
    cdef ProxyHeader header
    cdef ProxyStatus status
    cdef const ServerTable *server
    cdef ProxyTlvs *tlvs = NULL
    if connection.broken:
        return
    if events & (EPOLLERR | EPOLLHUP) or connection.last:       # `last`: its address is no longer served
        connection_end(connection.tcp, connection)
        return
    server = worker.set.servers[connection.listener]
    status = take_header(fd, connection.rule, events & EPOLLRDHUP, &header, server.proxy if server != NULL else NULL, worker.id, &tlvs)
    if status == PROXY_PARTIAL:
        await_octets(fd, header.wanted)
        return
    await_octets(fd, 1)
    connection.service = NULL       # its place and reference are ours
    connection_forget(connection.tcp, connection)       # its memory stays until the end of the batch
    open_client(connection.socket, service, fd, &connection.client, connection.idle_since, status, &header, tlvs, connection.opened)
    if service != NULL:
        service_unref(service)


cdef inline void await_octets(int fd, uint32_t wanted) noexcept nogil:
    """epoll says no more of the socket until there are so many octets, or the client sends no more: those that came already stay in it."""
    cdef int octets = <int>wanted
    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &octets, sizeof(octets))


cdef ProxyStatus take_header(int fd, ProxyRule rule, bint at_end, ProxyHeader *header, const ProxyPolicy *policy, uint32_t worker,
                             ProxyTlvs **tlvs) noexcept nogil:
    """policy: that counts for its TLVs, NULL: none. Sets *tlvs with PROXY_PRESENT, if they are kept."""
    cdef uint8_t octets[PROXY_HEADER_MAX]
    cdef ssize_t n = recv(fd, octets, PROXY_HEADER_MAX, MSG_PEEK)
    cdef ProxyStatus status
    if n < 0 and errno != EAGAIN and errno != EINTR:
        return PROXY_MALFORMED
    status = proxy_open(rule, octets, <uint32_t>max(n, 0), at_end or n == 0, header)
    if status == PROXY_PRESENT and recv(fd, octets, header.length, 0) != header.length:
        return PROXY_MALFORMED
    if status == PROXY_PRESENT and policy != NULL:
        tlvs[0] = proxy_tlvs(policy, rule, octets, header, worker)
    return status


cdef void refuse(StreamService *service, int fd) noexcept nogil:
    if service != NULL:
        service_leave_place(service)
    close(fd)


cdef void open_client(ListenSocket *sock, StreamService *service, int fd, const Address *client, int64_t since, ProxyStatus status,
                      const ProxyHeader *header, ProxyTlvs *tlvs, OpenFunc opened) noexcept nogil:
    if status == PROXY_MALFORMED:
        refuse(service, fd)
    elif status == PROXY_PRESENT and header.addressed:
        opened(sock, service, fd, &header.source, &header.destination, since, tlvs)
    else:
        opened(sock, service, fd, client, NULL, since, tlvs)
