"""The cache: answers what it has, keeps what comes up, and refreshes what is about to end or has ended.

A hit copies the entry's record table into the reply and borrows its octets until the batch ends; it takes no lock and writes one bit at
most. Names in the CoreDNS sense: denial before success, but a SERVFAIL yields to a success (spec: cache, Lookup).
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from fastdns.api.query cimport (ANSWERED, CHILD_CHAIN, NEXT, PARKED, PREFETCH_END, PREFETCH_NEXT, PREFETCH_PASS, TAILORED_REPLY, UP, Handler,
                                NativeHandler, Prefetch, Query, Verdict, handler_init, query_answer, query_child, query_detached, query_do, query_park,
                                query_resume, query_scratch)
from fastdns.api.worker cimport Timer, Worker
from fastdns.api.reply cimport Record, Reply, reply_add, reply_append, reply_copy
from fastdns.api.names cimport Name, zones_hold
from fastdns.api.wire cimport FLAG_AA, FLAG_AD, FLAG_CD, FLAG_RA, FLAG_TC, OPCODE_QUERY, RCODE_SERVFAIL, flags_opcode
from fastdns.api.metrics cimport Metric, label_count, metric_add
from fastdns.api.memory cimport atomic_peek_count, atomic_peek_ns, atomic_poke_ns, atomic_swap_ns, fetch_line, sieve_hit
from fastdns.plugins.cache._contents cimport SharedContents, contents_ask
from fastdns.plugins.cache._store cimport (Key, Entry, CacheStoreResult, SUCCESS, DENIAL, KEY_DO, KEY_CD, KEY_SUBNET, key_add_subnet, key_set, entry_left,
                                           entry_records, store_bound, store_find, store_drop, store_put, store_load)
from fastdns.plugins.cache._subnet cimport SUBNET_MAX, subnet_is_shared, subnet_write
from fastdns.plugins.cache._worth cimport Worth, reply_ttl, reply_worth

cdef enum:
    SECOND = 1000000000
    REFRESH_GUARD = 15          # seconds after which a refresh that never reported counts as lost
    VERIFY_LIMIT = 12           # seconds; more than any parked query below may take


# ---- going down ----

cdef Prefetch on_prefetch(Handler *self, Query *q) noexcept nogil:
    cdef Cache *cache = <Cache *>self.state
    cdef Work *work = <Work *>query_scratch(self, q)
    cdef Key key
    work.placed = q.name
    work.place = place_of(cache, q.name)
    if work.place != PLACE_KEPT:
        return PREFETCH_PASS
    key_set(&key, q.name, q.qtype, q.qclass, key_bits(q))
    work.hash = key.hash
    fetch_line(&cache.buckets.heads[key.hash & cache.buckets.mask])
    return PREFETCH_NEXT


cdef Prefetch on_prefetch_next(Handler *self, Query *q, uint32_t step) noexcept nogil:
    cdef Cache *cache = <Cache *>self.state
    cdef Work *work = <Work *>query_scratch(self, q)
    cdef Entry *entry = store_load(&cache.buckets.heads[work.hash & cache.buckets.mask])
    if entry == NULL:
        return PREFETCH_PASS
    fetch_line(entry)
    fetch_line(<uint8_t *>entry + 64)
    fetch_line(<uint8_t *>entry + 128)
    return PREFETCH_END


cdef inline Place place_of(const Cache *cache, const Name *name) noexcept nogil:
    if not zones_hold(cache.zones, name) or cache.bypassed.count and zones_hold(cache.bypassed, name):
        return PLACE_OUTSIDE
    return PLACE_UNKEPT if cache.unkept.count and zones_hold(cache.unkept, name) else PLACE_KEPT


cdef inline uint8_t key_bits(const Query *q) noexcept nogil:
    return (KEY_DO if query_do(q) else 0) | (KEY_CD if q.flags & FLAG_CD else 0)


cdef Verdict on_query(Handler *self, Query *q) noexcept nogil:
    cdef Cache *cache = <Cache *>self.state
    cdef Work *work = <Work *>query_scratch(self, q)
    cdef Cells *cells
    cdef Key key
    cdef Entry *found[2]
    cdef Entry *entry
    cdef int64_t left, now = q.worker.now
    cdef Place place = work.place if work.placed == q.name else place_of(cache, q.name)
    work.mode = MODE_NONE
    # A NOTIFY is for file and secondary: no answer to the question of the same name may take its place.
    if flags_opcode(q.flags) != OPCODE_QUERY or place == PLACE_OUTSIDE:
        return NEXT
    cells = &cache.cells[q.server.label]
    metric_add(cells.requests, q.worker.id, 1)
    work.bits = key_bits(q)
    if place == PLACE_KEPT and (q.edns.options_length or cache.subnet_sent) and not add_subnet(cache, q, work):
        place = PLACE_UNKEPT
    if place == PLACE_UNKEPT:
        metric_add(cells.misses, q.worker.id, 1)
        work.mode = MODE_UNKEPT
        work.secure = query_do(q) or q.flags & FLAG_AD != 0
        work.flags = q.flags
        q.flags |= FLAG_AD
        return NEXT
    work.secure = work.bits & KEY_DO or q.flags & FLAG_AD != 0
    work_key(&key, q, work)
    work.hash = key.hash
    store_find(&cache.buckets, &key, found)
    entry = choose(cache, found, now)
    if entry == NULL and work.bits & KEY_SUBNET:
        entry = find_shared(cache, q, work, now)
        if entry != NULL:
            metric_add(cells.hits[entry.kind], q.worker.id, 1)
            sieve_hit(&entry.visited)
            fill(q, entry, entry.ttl if cache.keepttl else <uint32_t>entry_left(entry, now), work.secure)
            return ANSWERED
    if entry == NULL:
        metric_add(cells.misses, q.worker.id, 1)
        work.mode = MODE_MISS
        contents_ask(cache.contents, q.name, &work.asked)
        work.flags = q.flags
        q.flags |= FLAG_AD
        return NEXT
    metric_add(cells.hits[entry.kind], q.worker.id, 1)
    sieve_hit(&entry.visited)
    left = entry_left(entry, now)
    if left <= 0:
        return serve_stale(self, q, work, entry, found[entry.kind])
    if cache.prefetch > 0 and is_popular(cache, entry, left, now):
        refresh(self, q, work, entry, entry, 0)
    fill(q, entry, entry.ttl if cache.keepttl else <uint32_t>left, work.secure)
    return ANSWERED


cdef inline void work_key(Key *key, const Query *q, const Work *work) noexcept nogil:
    key_set(key, q.name, q.qtype, q.qclass, work.bits & ~KEY_SUBNET)
    if work.bits & KEY_SUBNET:
        key_add_subnet(key, work.subnet, work.subnet_length)


cdef bint add_subnet(const Cache *cache, Query *q, Work *work) noexcept nogil:
    """Where the upstream is told a subnet it becomes a part of the key. False where the reply is not to be kept."""
    cdef uint8_t subnet[SUBNET_MAX]
    cdef int length = subnet_write(q, cache.subnet_bits, subnet)
    if length <= 0:
        return length == 0
    work.subnet = reply_copy(&q.reply, subnet, <uint32_t>length)
    work.subnet_length = <uint8_t>length
    work.bits |= KEY_SUBNET
    return work.subnet != NULL


cdef Entry *find_shared(Cache *cache, const Query *q, const Work *work, int64_t now) noexcept nogil:
    """For a query with a subnet: an entry that the upstream said is for all clients, and that has not expired, since who refreshes it asks for a subnet."""
    cdef Key key
    cdef Entry *found[2]
    cdef Entry *entry
    key_set(&key, q.name, q.qtype, q.qclass, work.bits & ~KEY_SUBNET)
    store_find(&cache.buckets, &key, found)
    entry = choose(cache, found, now)
    return entry if entry != NULL and entry.shared and entry_left(entry, now) > 0 else NULL


cdef inline bint lives(const Cache *cache, const Entry *entry, int64_t now) noexcept nogil:
    """Not expired, or not for longer than serve_stale allows."""
    return entry_left(entry, now) > -cache.stale


cdef inline Entry *choose(Cache *cache, Entry **found, int64_t now) noexcept nogil:
    cdef Entry *success = found[SUCCESS]
    cdef Entry *denial = found[DENIAL]
    cdef Entry *good
    if success != NULL:
        if cache.positive and cache.stale > 0:
            good = success if success.answering else store_load(&success.good)
            if good != NULL and lives(cache, good, now):
                return good
        if not lives(cache, success, now):
            success = NULL
    if denial == NULL or not lives(cache, denial, now):
        return success
    # A SERVFAIL passes; it must not hide an answer that was good.
    return success if denial.rcode == RCODE_SERVFAIL and success != NULL else denial


cdef inline void fill(Query *q, Entry *entry, uint32_t ttl, bint secure) noexcept nogil:
    """The reply out of an entry. AA always: old stub resolvers discard answers without it (spec: cache, Hit)."""
    cdef Reply *reply = &q.reply
    cdef Record *records = entry_records(entry)
    cdef Record *record
    cdef uint32_t i, count = entry.count
    if entry.wildcard:
        q.wildcard = entry.wildcard
        q.wildcard_name = q.name
    query_answer(q, entry.rcode, FLAG_AA | (entry.flags & ((FLAG_RA | FLAG_AD) if secure else FLAG_RA)))
    if count <= reply.capacity:
        memcpy(reply.records, records, count * sizeof(Record))
        reply.count = <uint16_t>count
        for i in range(count):
            reply.records[i].ttl = ttl
        return
    for i in range(count):
        record = reply_add(reply, records[i].section)
        if record == NULL:
            return
        record[0] = records[i]
        record.ttl = ttl


cdef inline bint is_popular(Cache *cache, Entry *entry, int64_t left, int64_t now) noexcept nogil:
    """Counts a hit; is it the time for a prefetch? Lost counts of two workers at once do no harm."""
    cdef int64_t hits = 1
    if atomic_peek_ns(&entry.hit) >= now - cache.duration:
        hits += atomic_peek_ns(&entry.hits)
    atomic_poke_ns(&entry.hits, hits)
    atomic_poke_ns(&entry.hit, now)
    return hits >= cache.prefetch and left * 100 < <int64_t>cache.percentage * entry.ttl + 100


# ---- refreshing ----

cdef inline bint begin_refresh(Entry *entry, int64_t now) noexcept nogil:
    """One refresh of an entry at a time, and none for a while after one that failed."""
    cdef int64_t quiet = atomic_peek_ns(&entry.quiet)
    return quiet <= now and atomic_swap_ns(&entry.quiet, quiet, now + <int64_t>REFRESH_GUARD * SECOND)


cdef void end_refresh(Cache *cache, Query *q, const Work *work, bint refreshed) noexcept nogil:
    """Opens the entry, if it is still there, for the next refresh."""
    cdef Key key
    cdef Entry *found[2]
    work_key(&key, q, work)
    store_find(&cache.buckets, &key, found)
    if found[work.kind] != NULL:
        atomic_poke_ns(&found[work.kind].quiet, q.worker.now + cache.recheck if work.stale and not refreshed and cache.recheck > 0 else 0)


cdef Query *refresh(Handler *self, Query *q, const Work *work, Entry *holder, const Entry *entry, bint stale) noexcept nogil:
    """Starts a child without a client that asks the handlers below and comes back through on_reply; NULL when there is no need or no slot."""
    cdef Cache *cache = <Cache *>self.state
    cdef Query *child
    if not begin_refresh(holder, q.worker.now):
        return NULL
    child = detach_child(self, q, work, holder, stale)
    if child == NULL:
        atomic_poke_ns(&holder.quiet, 0)
        return NULL
    (<Work *>query_scratch(self, child)).hits = atomic_peek_ns(&entry.hits)
    metric_add(cache.cells[q.server.label].prefetches, q.worker.id, 1)
    return child


cdef Query *detach_child(Handler *self, Query *q, const Work *work, const Entry *holder, bint stale) noexcept nogil:
    cdef Query *child = query_detached(self, q)
    cdef Work *its
    if child == NULL:
        return NULL
    child.floor = self.index                # its reply comes up through this handler
    ask_secure(child)
    its = <Work *>query_scratch(self, child)
    its.mode = MODE_REFRESH
    its.hash = work.hash
    contents_ask((<Cache *>self.state).contents, q.name, &its.asked)
    its.flags = child.flags
    its.bits = work.bits
    if work.bits & KEY_SUBNET:
        its.subnet = reply_copy(&child.reply, work.subnet, work.subnet_length)  # first in its arena: there is room
        its.subnet_length = work.subnet_length
    its.secure = 1
    its.stale = stale
    its.kind = holder.kind
    return child


cdef inline void ask_secure(Query *child) noexcept nogil:
    """AD in the question: the upstream then tells whether it has validated (RFC 6840 section 5.7)."""
    child.flags |= FLAG_AD
    child.packet_copy[3] |= FLAG_AD


# ---- stale entries (RFC 8767) ----

cdef Verdict serve_stale(Handler *self, Query *q, Work *work, Entry *entry, Entry *holder) noexcept nogil:
    """holder: the entry in the table, which keeps `entry` as its last good one where they differ."""
    cdef Cache *cache = <Cache *>self.state
    fill(q, entry, cache.stale_ttl if cache.stale_ttl else entry.ttl if cache.keepttl else 0, work.secure)
    work.kind = holder.kind
    work.stale = 1
    work.accepted = 0
    if not cache.verify:
        refresh(self, q, work, holder, entry, 1)
    elif cache.recheck == 0 or begin_refresh(holder, q.worker.now):
        if ask_first(self, q, work, holder):
            return PARKED
        atomic_poke_ns(&holder.quiet, 0)
    metric_add(cache.cells[q.server.label].stale, q.worker.id, 1)
    return ANSWERED


cdef bint ask_first(Handler *self, Query *q, Work *work, const Entry *holder) noexcept nogil:
    """Asks below before the stale reply goes out; False when that cannot be done now. The reply is parked with the query."""
    cdef Cache *cache = <Cache *>self.state
    cdef Query *child
    cdef Work *its
    cdef int64_t now = q.worker.now, deadline = q.deadline
    # The time that cancel gives is that of the child: when it is over, the stale reply still leaves.
    q.deadline = 0
    if cache.timeout == 0:
        if query_park(q, now + <int64_t>VERIFY_LIMIT * SECOND) < 0:
            return False
        q.deadline = deadline
        contents_ask(cache.contents, q.name, &work.asked)
        if query_child(self, q, CHILD_CHAIN, NULL, 0) < 0:
            return False
        ask_secure(q.child)
        work.mode = MODE_VERIFY
        return True
    child = detach_child(self, q, work, holder, 1)
    if child == NULL or query_park(q, now + cache.timeout + <int64_t>VERIFY_LIMIT * SECOND) < 0:
        return False
    its = <Work *>query_scratch(self, child)
    its.waiter = q
    its.waiter_generation = q.generation
    work.mode = MODE_WAIT
    memset(&work.timer, 0, sizeof(Timer))
    work.timer.fire = on_time_up
    work.timer.data = q
    q.worker.ops.timer_start(q.worker, &work.timer, now + cache.timeout)
    return True


cdef void on_time_up(Timer *timer, Worker *worker) noexcept nogil:
    query_resume(<Query *>timer.data)


cdef Verdict on_resume(Handler *self, Query *q) noexcept nogil:
    """The verification is through, or its time is up: the reply here is the stale one unless a good one came."""
    cdef Cache *cache = <Cache *>self.state
    cdef Work *work = <Work *>query_scratch(self, q)
    cdef Worth worth
    if work.mode == MODE_VERIFY:
        if q.child != NULL and q.child.reply.written:
            worth = judge(cache, q, &q.child.reply)
            work.accepted = keep_refresh(cache, q, work, &q.child.reply, &worth)
            if work.accepted:
                take_over(q, &q.child.reply, &worth, 0, work.secure)
        if cache.recheck > 0:
            end_refresh(cache, q, work, work.accepted)
    work.mode = MODE_NONE
    if not work.accepted:
        metric_add(cache.cells[q.server.label].stale, q.worker.id, 1)
    return ANSWERED


cdef void on_abandon(Handler *self, Query *q) noexcept nogil:
    cdef Work *work = <Work *>query_scratch(self, q)
    if work.mode == MODE_WAIT:
        q.worker.ops.timer_stop(q.worker, &work.timer)
    work.mode = MODE_NONE


cdef void take_over(Query *q, const Reply *fresh, const Worth *worth, uint16_t flags, bint secure) noexcept nogil:
    """A fresh reply in place of the stale one; flags are set beside its own."""
    query_answer(q, fresh.rcode, fresh.flags | flags)
    q.reply.verbatim = fresh.verbatim and flags == 0
    reply_append(&q.reply, fresh, -1)
    set_ttls(&q.reply, worth.ttl, secure)


# ---- coming up ----

cdef Verdict on_reply(Handler *self, Query *q) noexcept nogil:
    cdef Cache *cache = <Cache *>self.state
    cdef Work *work = <Work *>query_scratch(self, q)
    cdef Worth worth
    if work.mode == MODE_MISS:
        work.mode = MODE_NONE
        q.flags = work.flags
        if q.reply.written:
            worth = judge(cache, q, &q.reply)
            if worth.storable:
                keep(cache, q, work, &q.reply, &worth, False)
            set_ttls(&q.reply, worth.ttl, work.secure)
    elif work.mode == MODE_UNKEPT:
        work.mode = MODE_NONE
        q.flags = work.flags
        if q.reply.written:
            set_ttls(&q.reply, reply_ttl(&q.reply, q.name, q.qtype, q.qclass, flags_opcode(q.message.flags), &cache.limits), work.secure)
    elif work.mode == MODE_REFRESH:
        finish_refresh(self, q, work)
    return UP


cdef void on_done(Handler *self, Query *q) noexcept nogil:
    """A refresh that was dropped below has come to nothing."""
    cdef Work *work = <Work *>query_scratch(self, q)
    if work.mode == MODE_REFRESH:
        finish_refresh(self, q, work)


cdef inline Worth judge(const Cache *cache, const Query *q, const Reply *reply) noexcept nogil:
    return reply_worth(reply, q.name, q.qtype, q.qclass, flags_opcode(q.message.flags), &cache.limits)


cdef inline void set_ttls(Reply *reply, uint32_t ttl, bint secure) noexcept nogil:
    """Sets one TTL on all records, removes OPT, and clears AD unless the client asked for it: a miss is answered as a hit."""
    cdef uint32_t i
    for i in range(reply.count):
        reply.records[i].ttl = ttl
    reply.edns.present = 0
    if not secure:
        reply.flags &= ~FLAG_AD


cdef bint keep(Cache *cache, Query *q, const Work *work, const Reply *reply, const Worth *worth, bint refreshed) noexcept nogil:
    """Stores a storable reply; False when it is not kept."""
    cdef Cells *cells = &cache.cells[q.server.label]
    cdef CacheStoreResult outcome
    cdef Key key
    cdef bint shared = False
    work_key(&key, q, work)
    if key.hash != work.hash:
        # Some handler below has left another question behind: this is no reply to what the client asked.
        metric_add(cells.drops, q.worker.id, 1)
        return False
    if q.tailored & TAILORED_REPLY:
        return False
    if cache.excepted[worth.kind].count and zones_hold(cache.excepted[worth.kind], q.name):
        return False
    if work.bits & KEY_SUBNET and subnet_is_shared(q, reply):
        shared = True
        key_set(&key, q.name, q.qtype, q.qclass, work.bits & ~KEY_SUBNET)
    outcome = store_put(cache.store, &key, worth.kind, reply, worth.ttl, worth.answering, q.wildcard, q.worker.now, cache.stale,
                        cache.positive, shared, &work.asked)
    if outcome.evicted:
        metric_add(cells.evictions[worth.kind], q.worker.id, 1)
    if worth.kind == SUCCESS and (worth.answering if cache.positive else refreshed):
        store_drop(cache.store, &key, DENIAL)
    return outcome.stored


cdef bint keep_refresh(Cache *cache, Query *q, const Work *work, const Reply *reply, const Worth *worth) noexcept nogil:
    """Stores the reply to a refresh of a stale entry if it is good enough; True when it may also go to a client."""
    cdef bint accepted = worth.usable if cache.positive else worth.refreshing
    cdef bint whole = not (reply.flags & FLAG_TC or reply.overflow)
    if worth.storable and (accepted or cache.positive and whole):
        keep(cache, q, work, reply, worth, True)
    return accepted


cdef void finish_refresh(Handler *self, Query *q, Work *work) noexcept nogil:
    cdef Cache *cache = <Cache *>self.state
    cdef Worth worth
    cdef Key key
    cdef Entry *found[2]
    cdef Entry *entry
    cdef bint accepted = False
    work.mode = MODE_NONE
    if q.reply.written:
        worth = judge(cache, q, &q.reply)
        if work.stale:
            accepted = keep_refresh(cache, q, work, &q.reply, &worth)
        else:
            accepted = True
            if worth.storable:
                keep(cache, q, work, &q.reply, &worth, True)
    end_refresh(cache, q, work, accepted)
    if accepted and cache.prefetch > 0:
        # The new entry is as popular as the former one was.
        work_key(&key, q, work)
        store_find(&cache.buckets, &key, found)
        entry = found[DENIAL] if found[DENIAL] != NULL else found[SUCCESS]
        if entry != NULL:
            atomic_poke_ns(&entry.hits, work.hits)
            atomic_poke_ns(&entry.hit, q.worker.now)
    if work.waiter != NULL:
        tell_waiter(self, q, work, accepted, &worth)


cdef void tell_waiter(Handler *self, Query *q, const Work *work, bint accepted, const Worth *worth) noexcept nogil:
    """Hands a fresh reply to the query that waits for it, or lets it go with its stale one."""
    cdef Query *waiter = work.waiter
    cdef Work *its
    if waiter.generation != work.waiter_generation:
        return
    its = <Work *>query_scratch(self, waiter)
    if its.mode != MODE_WAIT:
        return
    q.worker.ops.timer_stop(q.worker, &its.timer)
    its.accepted = accepted
    if accepted:
        take_over(waiter, &q.reply, worth, FLAG_AA if worth.storable else 0, its.secure)
    query_resume(waiter)


# ---- set-up ----

cdef tuple PLAIN = ("server", "zones", "view")
cdef tuple TYPED = ("server", "type", "zones", "view")
cdef tuple TYPES = ("success", "denial")
cdef Metric ENTRIES = Metric("coredns_cache_entries", "The number of elements in the cache.", "gauge", TYPED)
# By labels: of the handlers that have them, while a reload goes on several. The last one is shown, and the one before if that is refused.
cdef dict counts = {}
cdef Metric REQUESTS = Metric("coredns_cache_requests_total", "The count of cache requests.", "counter", PLAIN)
cdef Metric HITS = Metric("coredns_cache_hits_total", "The count of cache hits.", "counter", TYPED)
cdef Metric MISSES = Metric("coredns_cache_misses_total", "The count of cache misses. Deprecated, derive misses from cache hits/requests counters.",
                            "counter", PLAIN)
cdef Metric PREFETCHES = Metric("coredns_cache_prefetch_total", "The number of times the cache has prefetched a cached item.", "counter", PLAIN)
cdef Metric DROPS = Metric("coredns_cache_drops_total", "The number responses that are not cached, because the reply is malformed.", "counter", PLAIN)
cdef Metric STALE = Metric("coredns_cache_served_stale_total", "The number of requests served from stale cache entries.", "counter", PLAIN)
cdef Metric REMOVALS = Metric("fastdns_cache_removals_total", "Counter of entries that were removed because their names have changed.", "counter",
                              ("type", "zones", "view"))
cdef Metric EVICTIONS = Metric("coredns_cache_evictions_total", "The count of cache evictions.", "counter", TYPED)


cdef uint32_t seconds(object nanoseconds) except? 4294967295:
    return <uint32_t>min(nanoseconds // SECOND, 4294967295)


cdef class CacheHandler(NativeHandler):
    def __cinit__(self, *args, **kwargs):
        handler_init(self)
        self.handler.prefetch = on_prefetch
        self.handler.prefetch_next = on_prefetch_next
        self.handler.query = on_query
        self.handler.reply = on_reply
        self.handler.resume = on_resume
        self.handler.done = on_done
        self.handler.abandon = on_abandon
        self.handler.scratch_size = sizeof(Work)
        self.cache = NULL
        self.watched = []
        self.observers = []

    def __init__(self, settings, handlers):
        NativeHandler.__init__(self, "cache")
        self.cache = <Cache *>calloc(1, sizeof(Cache))
        if self.cache == NULL:
            raise MemoryError
        self.settings = settings
        self.share = 1
        self._begin()
        self.below = handlers
        success, denial = ZoneList(settings.disable_success), ZoneList(settings.disable_denial)
        both = [zone for zone in success.names if denial.match(zone)] + [zone for zone in denial.names if success.match(zone)]
        self.lists = (ZoneList(settings.zones), success, denial, ZoneList(both))
        self.bypassed = ZoneList([])
        self.cache.bypassed = &self.bypassed.zones
        self.cache.zones = &(<ZoneList>self.lists[0]).zones
        self.cache.excepted[SUCCESS] = &(<ZoneList>self.lists[1]).zones
        self.cache.excepted[DENIAL] = &(<ZoneList>self.lists[2]).zones
        self.cache.unkept = &(<ZoneList>self.lists[3]).zones
        self.cache.limits.success = min(settings.success_ttl, 4294967295)
        self.cache.limits.success_least = min(settings.success_least, 4294967295)
        self.cache.limits.denial = min(settings.denial_ttl, 4294967295)
        self.cache.limits.denial_least = min(settings.denial_least, 4294967295)
        self.cache.limits.failure = seconds(settings.servfail)
        self.cache.prefetch = settings.prefetch
        self.cache.duration = settings.prefetch_duration
        self.cache.percentage = settings.prefetch_percentage
        self.cache.stale = settings.stale // SECOND
        self.cache.verify = settings.verify
        self.cache.timeout = settings.verify_timeout
        self.cache.stale_ttl = seconds(settings.stale_ttl)
        self.cache.recheck = settings.recheck
        self.cache.positive = settings.prefer_positive
        self.cache.keepttl = settings.keepttl
        self.handler.state = self.cache

    def __dealloc__(self):
        if self.cache != NULL:
            free(self.cache.cells)
            free(self.cache)

    cdef int _hold(self, SharedContents shared) except -1:
        self.shared = shared
        self.cache.contents = shared.contents
        self.cache.store = &shared.contents.store
        self.cache.buckets = shared.contents.store.buckets
        return 0

    cdef int _begin(self) except -1:
        """With contents of its own."""
        self._hold(SharedContents(self.settings.success_capacity, self.settings.denial_capacity))
        self.owns = True
        self.bound(self.share)
        return 0

    def take_over(self, CacheHandler former not None):
        if former.shared is not None:
            self._hold(former.shared)
            self.inherited = True
            self.owns = False

    def bound(self, double share):
        self.share = share
        if self.owns and self.shared is not None:
            store_bound(&self.shared.contents.store, self.settings.success_capacity, self.settings.denial_capacity, share)

    cpdef attach(self, list servers, str view):
        cdef Cells *cells
        zones = ",".join(self.settings.zones)
        for handler in self.below:
            for family, bits in enumerate(getattr(handler, "subnet_bits", (0, 0))):
                self.cache.subnet_bits[<int>family] = max(self.cache.subnet_bits[<int>family], <uint8_t>bits)
        self.cache.subnet_sent = self.cache.subnet_bits[0] or self.cache.subnet_bits[1]
        free(self.cache.cells)
        self.cache.cells = <Cells *>calloc(label_count(servers), sizeof(Cells))
        if self.cache.cells == NULL:
            raise MemoryError
        for label, server in servers:
            cells = &self.cache.cells[<uint32_t>label]
            plain = (server, zones, view)
            cells.requests = REQUESTS.cell(plain)
            cells.misses = MISSES.cell(plain)
            cells.prefetches = PREFETCHES.cell(plain)
            cells.drops = DROPS.cell(plain)
            cells.stale = STALE.cell(plain)
            for kind, name in enumerate(TYPES):
                typed = (server, name, zones, view)
                cells.hits[<int>kind] = HITS.cell(typed)
                cells.evictions[<int>kind] = EVICTIONS.cell(typed)
                count = Count(self, kind)
                self.watched.append((typed, count))
                counts.setdefault(typed, []).append(count)
                ENTRIES.watch(typed, count)
        self.bypassed = ZoneList([zone for handler in self.below if hasattr(handler, "cache_bypass_zones") for zone in handler.cache_bypass_zones()])
        self.cache.bypassed = &self.bypassed.zones
        self._observe(zones, view)

    cdef int _observe(self, str zones, str view) except -1:
        """Has the handlers below say which names change."""
        found = [handler.name_observer(self.lists[3]) for handler in self.below if hasattr(handler, "name_observer")]
        observers = [observer for observer in found if observer is not None]
        if not observers:
            return 0
        if self.inherited and self.cache.contents.cuts == NULL:    # its entries are in no subtrees
            self._begin()
        for kind, name in enumerate(TYPES):
            self.cache.contents.cells[<int>kind] = REMOVALS.cell((name, zones, view))
        self.shared.open_subtrees([cut for observer in observers for cut in observer.cuts])
        for observer in observers:
            self.observers.append(observer)
            observer.begin(self.shared)
        return 0

    cpdef close(self):
        for typed, count in self.watched:
            others = counts[typed]
            others.remove(count)
            if others:
                ENTRIES.watch(typed, others[len(others) - 1])
            else:
                ENTRIES.forget(typed)
                del counts[typed]
        self.watched.clear()
        for observer in self.observers:
            observer.end()
        self.observers.clear()
        self.cache.contents = NULL
        self.cache.store = NULL
        self.shared = None

    def contents(self):
        return self.shared

    def observed(self) -> list:
        """Zones whose names are removed when they change."""
        return [zone for observer in self.observers for zone in observer.zones()]

    def entries(self) -> tuple:
        """How many entries there are: success, denial."""
        if self.cache.store == NULL:
            return 0, 0
        return atomic_peek_count(&self.cache.store.counts[SUCCESS]), atomic_peek_count(&self.cache.store.counts[DENIAL])

    def octets(self) -> int:
        """Memory mapped for entries."""
        return self.cache.store.pool.mapped if self.cache.store != NULL else 0


class Count:
    """Gives the number of entries of a type when /metrics is read."""

    def __init__(self, handler, kind):
        self.handler = handler
        self.kind = kind

    def __call__(self):
        return self.handler.entries()[self.kind]
