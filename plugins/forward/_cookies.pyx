"""Cookies of questions and replies. The contract is in _cookies.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.string cimport memcmp, memcpy, memset
from fastdns.api.query cimport Query
from fastdns.api.wire cimport (EDNS_SIZE, OPTION_COOKIE, RCODE_BADVERS, RCODE_FORMERR, RCODE_NOTIMP, TYPE_OPT, load16, store16, store32, wire_option)
from fastdns.api.network cimport getsockname, sockaddr, sockaddr_in6, socklen_t
from fastdns.api.random cimport random_next
from fastdns.plugins.forward._upstream cimport (CLIENT_COOKIE, COOKIES_KNOWN, COOKIES_REFUSED, COOKIES_UNKNOWN, COOKIE_SPACE, SERVER_COOKIE_LEAST,
                                                SERVER_COOKIE_MAX, Exchange, Peer)

cdef enum:
    RCODE_BADCOOKIE = 23
    MISSING_MAX = 16                # replies over UDP without a cookie, one after another, after which an upstream does not count as knowing them
    AGAIN_MAX = 1                   # BADCOOKIE over UDP; then TCP (RFC 7873 5.3)

cdef int64_t FORGET = 600 * <int64_t>1000000000     # ns, after which an upstream that refused the option gets it again


cdef void renew(Peer *peer) noexcept nogil:
    cdef uint32_t i
    for i in range(CLIENT_COOKIE // 4):
        store32(peer.client_cookie + 4 * i, random_next(&peer.share.worker.random))
    peer.server_cookie_size = 0
    peer.cookies = COOKIES_UNKNOWN
    peer.cookies_missing = 0


cdef void cookies_check_address(Peer *peer, int fd) noexcept nogil:
    cdef sockaddr_in6 own
    cdef socklen_t size = sizeof(own)
    memset(&own, 0, sizeof(own))
    if getsockname(fd, <sockaddr *>&own, &size) < 0:
        return
    own.sin6_port = 0                   # at the same place in sockaddr_in
    if memcmp(&own, peer.own_address, sizeof(own)):
        memcpy(peer.own_address, &own, sizeof(own))
        renew(peer)


cdef bint wanted(Exchange *e, Peer *peer) noexcept nogil:
    if not peer.share.settings.cookies or e.signed or e.plain or e.opt_fixed or e.size + COOKIE_SPACE > EDNS_SIZE:
        return False
    if peer.cookies == COOKIES_REFUSED:
        if peer.share.worker.now - peer.cookies_refused < FORGET:
            return False
        renew(peer)
    return peer.cookies == COOKIES_KNOWN or e.failed == 0


cdef void cookies_write(Exchange *e, Peer *peer) noexcept nogil:
    cdef uint8_t *out
    cdef uint16_t length = <uint16_t>(CLIENT_COOKIE + peer.server_cookie_size)
    cookies_strip(e)
    if not wanted(e, peer):
        return
    e.bare_size = e.size
    e.cookie = length + 4
    if e.opt == 0:
        out = e.request + e.size
        out[0] = 0
        store16(out + 1, TYPE_OPT)
        store16(out + 3, min(e.limit, <uint32_t>EDNS_SIZE))
        store32(out + 5, 0)
        store16(out + 9, 0)
        e.opt = e.size + 9
        e.opt_added = 1
        e.size += 11
        store16(e.request + 10, load16(e.request + 10) + 1)
    out = e.request + e.size
    store16(out, OPTION_COOKIE)
    store16(out + 2, length)
    memcpy(out + 4, peer.client_cookie, CLIENT_COOKIE)
    memcpy(out + 4 + CLIENT_COOKIE, peer.server_cookie, peer.server_cookie_size)
    memcpy(e.client_cookie, peer.client_cookie, CLIENT_COOKIE)
    e.size += e.cookie
    store16(e.request + e.opt, load16(e.request + e.opt) + e.cookie)


cdef void cookies_strip(Exchange *e) noexcept nogil:
    if e.cookie == 0:
        return
    store16(e.request + e.opt, load16(e.request + e.opt) - e.cookie)
    if e.opt_added:
        store16(e.request + 10, load16(e.request + 10) - 1)
        e.opt = 0
        e.opt_added = 0
    e.size = e.bare_size
    e.cookie = 0


cdef CookieVerdict missing(Exchange *e, Peer *peer, uint32_t rcode) noexcept nogil:
    if peer.cookies == COOKIES_KNOWN:
        peer.cookies_missing += 1
        if peer.cookies_missing >= MISSING_MAX:
            renew(peer)
        return COOKIE_TCP
    if rcode == RCODE_BADCOOKIE:
        return COOKIE_TCP
    if rcode == RCODE_FORMERR or rcode == RCODE_NOTIMP or rcode == RCODE_BADVERS:
        peer.cookies = COOKIES_REFUSED
        peer.cookies_refused = peer.share.worker.now
        return COOKIE_PLAIN
    return COOKIE_ACCEPT


cdef CookieVerdict cookies_judge(Exchange *e, Peer *peer, uint32_t rcode, bint cut) noexcept nogil:
    cdef Query *q = e.waiters
    cdef const uint8_t *option = NULL
    cdef uint32_t size
    if e.cookie == 0:
        return COOKIE_ACCEPT
    if not cut and q.reply.edns.present:
        option = wire_option(&q.reply.edns, OPTION_COOKIE)
    if option == NULL:
        return missing(e, peer, rcode)
    size = load16(option + 2)
    if size < CLIENT_COOKIE or memcmp(option + 4, e.client_cookie, CLIENT_COOKIE):
        return COOKIE_IGNORE
    size -= CLIENT_COOKIE
    if SERVER_COOKIE_LEAST <= size <= SERVER_COOKIE_MAX and memcmp(e.client_cookie, peer.client_cookie, CLIENT_COOKIE) == 0:
        memcpy(peer.server_cookie, option + 4 + CLIENT_COOKIE, size)
        peer.server_cookie_size = <uint8_t>size
        peer.cookies = COOKIES_KNOWN
        peer.cookies_missing = 0
    if rcode != RCODE_BADCOOKIE:
        return COOKIE_ACCEPT
    e.bad_cookies += 1
    return COOKIE_AGAIN if e.bad_cookies <= AGAIN_MAX else COOKIE_TCP
