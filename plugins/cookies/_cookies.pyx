"""The native handler of cookies: server cookies of version 1 (RFC 7873, RFC 9018). What other plugins may ask it stands in _cookies.pxd."""
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from libc.time cimport time
from fastdns.api.query cimport (ANSWERED, COOKIE_IN_REPLY, COOKIE_OPTION, COOKIE_VALID, NEXT, TRANSPORT_NONE, TRANSPORT_UDP, Handler, NativeHandler, Query,
                                Verdict, handler_init, query_answer, query_scratch)
from fastdns.api.memory cimport atomic_load_pointer, atomic_store_pointer, epoch_wait
from fastdns.api.metrics cimport Metric, label_count, metric_add
from fastdns.api.network cimport Address
from fastdns.api.wire cimport OPTION_COOKIE, RCODE_BADCOOKIE, load16, load32, store16, store32, wire_option
from fastdns.plugins.cookies._siphash cimport siphash24
from fastdns.plugins.cookies.secrets import SECRETS_MAX, SECRET_SIZE

cdef enum:                      # octets
    CLIENT_COOKIE = 8
    SERVER_COOKIE = 16          # version, three reserved ones, time, hash
    SECRET = 16                 # SECRET_SIZE
    SECRETS = 2                 # SECRETS_MAX
    VERSION = 1

cdef enum:                      # seconds (RFC 9018 4.3)
    LIFETIME = 3600
    RENEWAL = 1800              # an older one is replaced
    AHEAD = 300                 # of clocks of other servers with the same secret

cdef struct Secrets:            # never changed once it is published
    uint32_t count
    uint8_t keys[SECRETS][SECRET]   # the first makes cookies, all are accepted

cdef struct CookieReply:        # scratch of a query
    uint8_t option[COOKIE_OPTION]   # of the reply
    uint8_t renew               # with COOKIE_VALID: the reply gets a new server cookie

cdef struct Cells:              # of metrics, for one server
    uint32_t client
    uint32_t valid
    uint32_t invalid
    uint32_t refused

cdef struct Cookies:
    Secrets *secrets            # atomic; owned by the handler, freed once no worker may read it
    uint8_t require
    Cells *cells                # by server label


cdef void cookie_hash(const uint8_t *secret, const uint8_t *cookie, const Address *client, uint8_t *out) noexcept nogil:
    """Of client cookie, version, reserved octets and time, which begin `cookie`, and the client's address (RFC 9018 4.4)."""
    cdef uint8_t data[32]
    cdef uint32_t size = 4 if client.family == 4 else 16
    memcpy(data, cookie, 16)
    memcpy(data + 16, client.octets, size)
    siphash24(secret, data, 16 + size, out)


cdef bint same_hash(const uint8_t *a, const uint8_t *b) noexcept nogil:
    """Takes as long whatever differs."""
    cdef uint32_t i
    cdef uint8_t differs = 0
    for i in range(8):
        differs |= a[i] ^ b[i]
    return differs == 0


cdef bint cookie_valid(const Secrets *secrets, const uint8_t *cookie, uint32_t length, const Address *client, uint32_t now, bint *renew) noexcept nogil:
    """Is the server cookie behind the client's one of this server? renew: a new one is to replace it."""
    cdef uint8_t expected[8]
    cdef int32_t age
    cdef uint32_t i
    if length != CLIENT_COOKIE + SERVER_COOKIE or cookie[8] != VERSION:
        return False
    age = <int32_t>(now - load32(cookie + 12))      # serial numbers (RFC 1982)
    if age > LIFETIME or age < -AHEAD:
        return False
    for i in range(secrets.count):
        cookie_hash(secrets.keys[i], cookie, client, expected)
        if same_hash(expected, cookie + 16):
            renew[0] = i > 0 or age > RENEWAL
            return True
    return False


cdef void write_option(const Secrets *secrets, const uint8_t *cookie, const Address *client, uint32_t now, bint renew, uint8_t *option) noexcept nogil:
    """The reply's option: the client's cookie, and its server cookie again or a new one."""
    store16(option, OPTION_COOKIE)
    store16(option + 2, CLIENT_COOKIE + SERVER_COOKIE)
    if not renew:
        memcpy(option + 4, cookie, CLIENT_COOKIE + SERVER_COOKIE)
        return
    memcpy(option + 4, cookie, CLIENT_COOKIE)
    memset(option + 12, 0, 4)
    option[12] = VERSION
    store32(option + 16, now)
    cookie_hash(secrets.keys[0], option + 4, client, option + 20)


cdef inline const uint8_t *client_option(const Query *q) noexcept nogil:
    """The client's cookie option, not one that rewrite or a handler's own query makes; NULL: the query has none."""
    if not q.message.edns.options_length or q.parent != NULL or q.transport == TRANSPORT_NONE:
        return NULL
    return wire_option(&q.message.edns, OPTION_COOKIE)


cdef inline bint check_option(Handler *self, Query *q, const uint8_t *option, const Secrets *secrets, uint32_t now) noexcept nogil:
    cdef CookieReply *kept = <CookieReply *>query_scratch(self, q)
    cdef bint renew = False
    if q.cookie & COOKIE_VALID:
        return True
    if not cookie_valid(secrets, option + 4, load16(option + 2), &q.client, now, &renew):
        return False
    q.cookie |= COOKIE_VALID
    kept.renew = renew
    return True


cdef bint cookies_check(Handler *self, Query *q) noexcept nogil:
    cdef Cookies *cookies = <Cookies *>self.state
    cdef const uint8_t *option = client_option(q)
    if option == NULL or load16(option + 2) == CLIENT_COOKIE:
        return False
    return check_option(self, q, option, <const Secrets *>atomic_load_pointer(<void **>&cookies.secrets), <uint32_t>time(NULL))


cdef Verdict cookies_query(Handler *self, Query *q) noexcept nogil:
    cdef Cookies *cookies = <Cookies *>self.state
    cdef CookieReply *kept
    cdef const Cells *cells
    cdef const Secrets *secrets
    cdef const uint8_t *option = client_option(q)
    cdef uint32_t length, now
    cdef bint renew = True
    if option == NULL:
        return NEXT
    kept = <CookieReply *>query_scratch(self, q)
    cells = &cookies.cells[q.server.label]
    secrets = <const Secrets *>atomic_load_pointer(<void **>&cookies.secrets)
    length = load16(option + 2)     # 8, or 16 to 40: others do not come this far
    now = <uint32_t>time(NULL)
    if length > CLIENT_COOKIE and check_option(self, q, option, secrets, now):
        renew = kept.renew
        metric_add(cells.valid, q.worker.id, 1)
    else:
        metric_add(cells.invalid if length > CLIENT_COOKIE else cells.client, q.worker.id, 1)
    write_option(secrets, option + 4, &q.client, now, renew, kept.option)
    q.cookie_option = kept.option
    q.cookie |= COOKIE_IN_REPLY
    if cookies.require and not q.cookie & COOKIE_VALID and q.transport == TRANSPORT_UDP:
        metric_add(cells.refused, q.worker.id, 1)
        query_answer(q, RCODE_BADCOOKIE, 0)
        return ANSWERED
    return NEXT


# ---- the Python side ----

cdef Metric QUERIES = Metric("fastdns_cookies_queries_total", "Queries with a cookie.", "counter", ("server", "cookie"))
cdef Metric REFUSED = Metric("fastdns_cookies_refused_total", "Queries answered BADCOOKIE.", "counter", ("server",))


cdef class CookiesHandler(NativeHandler):
    cdef Cookies cookies

    def __init__(self, str name, secrets, bint require):
        handler_init(self)
        NativeHandler.__init__(self, name)
        self.cookies.require = require
        self.handler.state = &self.cookies
        self.handler.scratch_size = sizeof(CookieReply)
        self.handler.query = cookies_query
        self.use(secrets)

    def __dealloc__(self):
        free(self.cookies.secrets)
        free(self.cookies.cells)

    def use(self, secrets):
        cdef Secrets *former = self.cookies.secrets
        cdef Secrets *made
        cdef bytes key
        cdef uint32_t i
        if not 1 <= len(secrets) <= SECRETS or any(len(key) != SECRET for key in secrets):
            raise ValueError(f"1 to {SECRETS_MAX} secrets of {SECRET_SIZE} octets")
        made = <Secrets *>calloc(1, sizeof(Secrets))
        if made == NULL:
            raise MemoryError
        made.count = <uint32_t>len(secrets)
        for i, key in enumerate(secrets):
            memcpy(made.keys[i], <const uint8_t *>key, SECRET)
        atomic_store_pointer(<void **>&self.cookies.secrets, made)
        if former != NULL:
            with nogil:
                epoch_wait()
            free(former)

    cpdef attach(self, list servers, str view):
        cdef uint32_t count = label_count(servers)
        cdef Cells *cells
        free(self.cookies.cells)
        self.cookies.cells = <Cells *>calloc(count, sizeof(Cells))
        if self.cookies.cells == NULL:
            raise MemoryError
        for label, server in servers:
            cells = &self.cookies.cells[<uint32_t>label]
            cells.client = QUERIES.cell((server, "client"))
            cells.valid = QUERIES.cell((server, "valid"))
            cells.invalid = QUERIES.cell((server, "invalid"))
            cells.refused = REFUSED.cell((server,))


def server_cookie(bytes secret not None, bytes cookie not None, bytes address not None) -> bytes:
    """See cookies/_cookies.pyi."""
    cdef Address client
    cdef uint8_t out[8]
    if len(secret) != SECRET or len(cookie) != 16 or len(address) not in (4, 16):
        raise ValueError("a secret of 16 octets, 16 of a cookie, and an address")
    client.family = 4 if len(address) == 4 else 6
    memcpy(client.octets, <const uint8_t *>address, len(address))
    cookie_hash(secret, cookie, &client, out)
    return cookie[8:] + out[:8]
