"""DNS cookies toward upstreams (RFC 7873, 9018), of instances with `cookies`: a reply over UDP counts if it has the cookie that went with its question.

Each worker has a client cookie for each upstream, at random, and another one when its own address changes. Before an upstream has shown that it knows cookies,
a reply without one counts; an upstream that cannot stand the option gets the question again without it. After that, the question goes over TCP instead.
"""
from libc.stdint cimport uint32_t
from fastdns.plugins.forward._upstream cimport Exchange, Peer

cdef enum CookieVerdict:            # on a reply
    COOKIE_ACCEPT
    COOKIE_IGNORE                   # it is another's: the wait goes on
    COOKIE_AGAIN                    # the question goes once more, with the server cookie that came
    COOKIE_PLAIN                    # once more, as the client wrote it
    COOKIE_TCP                      # once more over TCP

# Before a question is sent over UDP, and before it is sent over anything else or looked at.
cdef void cookies_write(Exchange *e, Peer *peer) noexcept nogil
cdef void cookies_strip(Exchange *e) noexcept nogil
# After a reply over UDP was parsed into the first waiting query, or is too long to be (cut).
cdef CookieVerdict cookies_judge(Exchange *e, Peer *peer, uint32_t rcode, bint cut) noexcept nogil
# A socket was opened: cookies do not go with the worker from one address to another.
cdef void cookies_check_address(Peer *peer, int fd) noexcept nogil
