"""Addresses, sets of networks, and the kernel's socket calls."""
from fastdns.system.address cimport (Address, address_from_octets, address_from_socket, address_network, address_parse, address_prefix,
                                     address_text, address_to_octets, address_to_socket)
# Sets of networks, walked from the widest one that holds an address to the narrowest.
from fastdns.index.prefixes cimport PrefixKey, PrefixNode, PrefixTree, Prefixes, prefixes_first, prefixes_next

# Sockets of a handler's own are non-blocking and stand in its worker's epoll (api/worker.pxd).
from fastdns.system.socket cimport (AF_INET, AF_INET6, EFD_CLOEXEC, EFD_NONBLOCK, EPOLLIN, EPOLLOUT, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP,
                                    MSG_DONTWAIT, MSG_NOSIGNAL, MSG_TRUNC, POLLIN, POLLOUT, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_STREAM,
                                    SOL_SOCKET, SO_RCVBUF, TCP_NODELAY, bind, close, connect, eventfd, getsockname, iovec, mmsghdr, poll, pollfd,
                                    read, recv, recvmmsg, send, sendmmsg, sockaddr, sockaddr_in, sockaddr_in6, socket, socklen_t, write,
                                    write_all)
# For a thread of the plugin's own.
from fastdns.system.socket cimport (EPOLLERR, EPOLLHUP, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, epoll_create1, epoll_ctl, epoll_event, epoll_wait)
# Nanoseconds, monotonic.
from fastdns.system.socket cimport socket_clock
