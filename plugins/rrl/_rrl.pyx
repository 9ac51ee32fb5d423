"""The native handler of rrl: requests are charged on their way down, replies over UDP on their way up, to accounts of `_table`."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from fastdns.api.query cimport (COOKIE_VALID, DROPPED, NEXT, TRANSPORT_NONE, TRANSPORT_UDP, UP, Handler, NativeHandler, Query, Verdict, handler_init,
                                query_answer, query_scratch)
from fastdns.api.names cimport Name, ZoneList, Zones, wire_name_copy, zones_hold
from fastdns.api.network cimport Address
from fastdns.api.random cimport hash_octets, hash_seed
from fastdns.api.reply cimport SECTION_ANSWER, SECTION_AUTHORITY, Record, Reply
from fastdns.api.wire cimport FLAG_AA, FLAG_RA, FLAG_TC, RCODE_NOERROR, RCODE_NXDOMAIN, TYPE_NS
from fastdns.api.metrics cimport Metric, label_count, metric_add
from fastdns.api.metadata cimport Label, LabelHandle, label_read
from fastdns.api.text cimport Text
from fastdns.plugins.cookies._cookies cimport cookies_check
from fastdns.plugins.rrl._clients cimport (COUNT_REQUESTS, COUNT_RESPONSES, NAMESPACE_MAX, POD_MAX, Identity, clients_count)
from fastdns.plugins.rrl._table cimport (CHARGE_GRANTED, CHARGE_SLIPS, CHARGE_UNTRACKED, AccountTable, Charge, table_charge, table_close, table_open)
from fastdns.plugins.rrl.settings import BY_NAMESPACE, KINDS

cdef enum Kind:                 # KINDS' order
    KIND_REQUEST
    KIND_RESPONSE
    KIND_NODATA
    KIND_NXDOMAIN
    KIND_REFERRAL
    KIND_ERROR
    RATES

cdef enum Action:               # ACTIONS' order
    ACTION_DROP
    ACTION_SLIP
    ACTION_REPORT
    ACTION_COUNT

ACTIONS = ("drop", "slip", "report")

cdef enum Owner:                # whose an account is, beside the families 4 and 6 of networks
    OWNER_POD4 = 14             # of the pod that alone has the address
    OWNER_POD6 = 16
    OWNER_NAMESPACE = 20

cdef enum:
    SECOND = 1000000000         # ns
    PROVEN = 0x80               # in AccountName.kind: of requests whose client has shown that the address is its own

cdef struct AccountName:        # what an account's key is the hash of
    uint8_t client[16]          # a network's address, a pod's, or the hash of a namespace
    uint32_t name               # hash of the name; 0: any
    uint16_t qtype              # 0: any
    uint8_t kind                # a Kind, with PROVEN
    uint8_t owner               # a family, or of Owner

cdef struct Cells:              # of metrics, for one server
    uint32_t exceeded           # RATES * ACTION_COUNT
    uint32_t untracked

cdef struct Rrl:
    const Zones *zones
    AccountTable table
    int64_t interval[RATES]     # ns of a token; 0: no limit
    int64_t window              # ns
    uint8_t mask4[4]
    uint8_t mask6[16]
    uint32_t slip
    uint8_t report_only
    uint8_t by_namespace
    uint8_t limits_replies
    const Label *namespace      # of the client's pod; NULL: not asked for. Borrowed from its handle
    const Label *pod
    Handler *cookies            # of the block's *cookies*, which lives as long as the chain; NULL: the block has none
    Cells *cells                # by server label


# ---- whose account ----

cdef uint32_t read_text(const Label *label, Query *q, char *out, uint32_t size) noexcept nogil:
    """Octets of a label's value; 0: none."""
    cdef Text text
    text.out, text.used, text.capacity, text.full = out, 0, size, 0
    if label == NULL or not label_read(label, q, &text) or text.full:
        return 0
    return text.used


cdef void name_owner(const Rrl *rrl, Query *q, AccountName *account) noexcept nogil:
    cdef const Address *client = &q.client
    cdef const uint8_t *mask = &rrl.mask4[0] if client.family == 4 else &rrl.mask6[0]
    cdef uint32_t i, length, size = 4 if client.family == 4 else 16
    cdef uint64_t hashed
    cdef char namespace[NAMESPACE_MAX]
    memset(account, 0, sizeof(AccountName))
    account.owner = client.family
    if rrl.namespace != NULL:
        length = read_text(rrl.namespace, q, namespace, NAMESPACE_MAX)
        if length and rrl.by_namespace:
            hashed = hash_octets(<const uint8_t *>namespace, length, hash_seed)
            memcpy(account.client, &hashed, sizeof(hashed))
            account.owner = OWNER_NAMESPACE
            return
        if length:
            memcpy(account.client, client.octets, size)
            account.owner = OWNER_POD4 if size == 4 else OWNER_POD6
            return
    for i in range(size):
        account.client[i] = client.octets[i] & mask[i]


cdef inline Charge charge(const Rrl *rrl, Query *q, AccountName *account, Kind kind, uint8_t proven) noexcept nogil:
    cdef uint64_t key
    account.kind = <uint8_t>kind | proven
    key = hash_octets(<const uint8_t *>account, sizeof(AccountName), hash_seed)
    return table_charge(&rrl.table, key, rrl.interval[<int>kind], rrl.window, rrl.slip, q.worker.now)


cdef bint exceeds(const Rrl *rrl, Query *q, Charge charged, Kind kind) noexcept nogil:
    """Counts what was charged. Does the rate decide what becomes of the query?"""
    cdef Identity identity
    cdef const Cells *cells = &rrl.cells[q.server.label]
    cdef Action action = ACTION_REPORT if rrl.report_only else ACTION_SLIP if charged == CHARGE_SLIPS and kind != KIND_REQUEST else ACTION_DROP
    if charged == CHARGE_UNTRACKED:
        metric_add(cells.untracked, q.worker.id, 1)
        return False
    metric_add(cells.exceeded + <uint32_t>kind * ACTION_COUNT + <uint32_t>action, q.worker.id, 1)
    memset(&identity, 0, sizeof(identity))
    identity.family = q.client.family
    memcpy(identity.octets, q.client.octets, 4 if q.client.family == 4 else 16)
    identity.namespace_length = <uint8_t>read_text(rrl.namespace, q, identity.namespace, NAMESPACE_MAX)
    if identity.namespace_length:
        identity.pod_length = <uint8_t>read_text(rrl.pod, q, identity.pod, POD_MAX)
    clients_count(q.worker.id, &identity, COUNT_REQUESTS if kind == KIND_REQUEST else COUNT_RESPONSES, q.worker.now)
    return not rrl.report_only


# ---- requests ----

cdef Verdict rrl_query(Handler *self, Query *q) noexcept nogil:
    cdef const Rrl *rrl = <const Rrl *>self.state
    cdef AccountName account
    cdef Charge charged
    cdef uint8_t proven = 0
    # Queries of handlers are part of a client's, which was charged.
    if q.parent != NULL or q.transport == TRANSPORT_NONE or not zones_hold(rrl.zones, &q.first_name):
        return NEXT
    if rrl.interval[<int>KIND_REQUEST]:
        name_owner(rrl, q, &account)
        # Forged datagrams use up the account of datagrams alone.
        if q.transport != TRANSPORT_UDP or (rrl.cookies != NULL and cookies_check(rrl.cookies, q)):
            proven = PROVEN
        charged = charge(rrl, q, &account, KIND_REQUEST, proven)
        if charged != CHARGE_GRANTED and exceeds(rrl, q, charged, KIND_REQUEST):
            return DROPPED
    # Over other transports the address is the client's own: nobody else gets its replies.
    if rrl.limits_replies and q.transport == TRANSPORT_UDP:
        (<uint8_t *>query_scratch(self, q))[0] = 1
    return NEXT


# ---- replies ----

cdef Kind kind_of(const Reply *reply, const Record **authority) noexcept nogil:
    """As coredns/rrl tells them apart; authority: the first record of that section, or NULL."""
    cdef bint answers = False
    cdef uint32_t i
    authority[0] = NULL
    if not reply.written:
        return KIND_ERROR
    for i in range(reply.count):
        if reply.records[i].section == SECTION_ANSWER:
            answers = True
        elif reply.records[i].section == SECTION_AUTHORITY and authority[0] == NULL:
            authority[0] = &reply.records[i]
    if answers:
        return KIND_RESPONSE
    if reply.rcode == RCODE_NXDOMAIN:
        return KIND_NXDOMAIN
    if reply.rcode != RCODE_NOERROR:
        return KIND_ERROR
    return KIND_REFERRAL if authority[0] != NULL and authority[0].type == TYPE_NS else KIND_NODATA


cdef void name_reply(Query *q, Kind kind, const Record *authority, AccountName *account) noexcept nogil:
    """Which replies are one account's: of a name, of what a wildcard makes, of a zone's names that do not exist, of errors whatever they are about."""
    cdef Name name
    if kind == KIND_ERROR:
        return
    if kind == KIND_RESPONSE or kind == KIND_REFERRAL:
        account.qtype = q.message.qtype
    if kind == KIND_RESPONSE or kind == KIND_NODATA:
        account.name = q.first_name.hash[0]
        if q.wildcard:
            account.name = q.wildcard_name.hash[q.wildcard_name.labels + 1 - q.wildcard]
    elif authority != NULL:
        wire_name_copy(&name, authority.owner, authority.owner_length)
        account.name = name.hash[0]


cdef Verdict rrl_reply(Handler *self, Query *q) noexcept nogil:
    cdef const Rrl *rrl = <const Rrl *>self.state
    cdef const Record *authority
    cdef AccountName account
    cdef Charge charged
    cdef Kind kind
    if not (<uint8_t *>query_scratch(self, q))[0] or q.cookie & COOKIE_VALID:
        return UP
    kind = kind_of(&q.reply, &authority)
    if not rrl.interval[<int>kind]:
        return UP
    name_owner(rrl, q, &account)
    name_reply(q, kind, authority, &account)
    charged = charge(rrl, q, &account, kind, 0)
    if charged == CHARGE_GRANTED or not exceeds(rrl, q, charged, kind):
        return UP
    if charged != CHARGE_SLIPS:
        return DROPPED
    query_answer(q, q.reply.rcode, (q.reply.flags & (FLAG_AA | FLAG_RA)) | FLAG_TC if q.reply.written else FLAG_TC)
    return UP


# ---- the Python side ----

cdef Metric EXCEEDED = Metric("fastdns_rrl_exceeded_total", "Requests and replies above their limits.", "counter", ("server", "kind", "action"))
cdef Metric UNTRACKED = Metric("fastdns_rrl_untracked_total", "Requests and replies that passed because no account was free for them.", "counter",
                               ("server",))


cdef void set_mask(uint8_t *mask, uint32_t size, uint32_t length) noexcept nogil:
    cdef uint32_t i
    for i in range(size):
        mask[i] = 0xFF if length >= 8 * (i + 1) else <uint8_t>(0xFF00 >> (length - 8 * i)) if length > 8 * i else 0


cdef class RrlHandler(NativeHandler):
    cdef Rrl rrl
    cdef ZoneList zones
    cdef list labels            # LabelHandles

    def __init__(self, str name, settings):
        cdef uint32_t i
        handler_init(self)
        NativeHandler.__init__(self, name)
        self.labels = []
        self.zones = ZoneList(settings.zones)
        self.rrl.zones = &self.zones.zones
        if table_open(&self.rrl.table, settings.max_table_size) < 0:
            raise MemoryError
        for i in range(RATES):
            rate = settings.rates[KINDS[i]]
            self.rrl.interval[i] = max(1, int(SECOND / rate)) if rate else 0
            if i != KIND_REQUEST and rate:
                self.rrl.limits_replies = 1
        self.rrl.window = int(settings.window * SECOND)
        set_mask(self.rrl.mask4, 4, settings.ipv4_prefix_length)
        set_mask(self.rrl.mask6, 16, settings.ipv6_prefix_length)
        self.rrl.slip = settings.slip_ratio
        self.rrl.report_only = settings.report_only
        self.rrl.by_namespace = settings.by == BY_NAMESPACE
        self.handler.state = &self.rrl
        self.handler.scratch_size = 8
        if self.rrl.limits_replies or self.rrl.interval[<int>KIND_REQUEST]:
            self.handler.query = rrl_query
        if self.rrl.limits_replies:
            self.handler.reply = rrl_reply

    def __dealloc__(self):
        table_close(&self.rrl.table)
        free(self.rrl.cells)

    def use_cookies(self, NativeHandler cookies not None):
        self.rrl.cookies = &cookies.handler

    def use(self, LabelHandle namespace not None, LabelHandle pod):
        self.labels = [namespace, pod]
        self.rrl.namespace = &namespace.label
        self.rrl.pod = &pod.label if pod is not None else NULL

    cpdef attach(self, list servers, str view):
        cdef uint32_t count = label_count(servers)
        free(self.rrl.cells)
        self.rrl.cells = <Cells *>calloc(count, sizeof(Cells))
        if self.rrl.cells == NULL:
            raise MemoryError
        for label, server in servers:
            self.rrl.cells[<uint32_t>label].exceeded = EXCEEDED.table((server, KINDS, ACTIONS))
            self.rrl.cells[<uint32_t>label].untracked = UNTRACKED.cell((server,))
