"""UDP sessions through a proxy. The contract is in proxy/sessions.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset
from fastdns.proxy.tlvs cimport TLVS_MAX, ProxyTlvs, tlvs_new, tlvs_ref, tlvs_unref
from fastdns.system.address cimport Address
from fastdns.system.hash cimport hash_octets, hash_seed
from fastdns.system.spinlock cimport spin_free, spin_try
from fastdns.telemetry.metrics cimport METRIC_CONTROL

cdef extern from "<sched.h>" nogil:
    int sched_yield()


# ---- keys ----

cdef inline uint64_t hash_peer(const Address *peer, uint8_t *owner) noexcept nogil:
    """Of address, port and interface; sets the bucket of the address."""
    cdef uint32_t size = 4 if peer.family == 4 else 16
    cdef uint64_t address = hash_octets(peer.octets, size, hash_seed)
    cdef uint64_t words[2]
    owner[0] = <uint8_t>(address >> 56)
    words[0] = address
    words[1] = <uint64_t>peer.scope << 16 | peer.port
    return hash_octets(<const uint8_t *>words, sizeof(words), hash_seed)


cdef inline bint same_peer(const Address *a, const Address *b) noexcept nogil:
    return a.family == b.family and a.port == b.port and a.scope == b.scope and memcmp(a.octets, b.octets, 4 if a.family == 4 else 16) == 0


# ---- a part, whose lock the caller holds ----

cdef void unlink_owner(SessionPart *part, uint32_t place) noexcept nogil:
    cdef Session *session = &part.sessions[place]
    cdef SessionOwner *owner = &part.owners[session.owner]
    if session.newer:
        part.sessions[session.newer].older = session.older
    else:
        owner.newest = session.older
    if session.older:
        part.sessions[session.older].newer = session.newer
    else:
        owner.oldest = session.newer
        owner.oldest_used = part.sessions[session.newer].used
    owner.count -= 1


cdef void use(SessionPart *part, uint32_t place, int64_t now) noexcept nogil:
    """It becomes the newest of its owner; it is in no list."""
    cdef Session *session = &part.sessions[place]
    cdef SessionOwner *owner = &part.owners[session.owner]
    session.used = now
    session.newer = 0
    session.older = owner.newest
    if owner.newest:
        part.sessions[owner.newest].newer = place
    else:
        owner.oldest = place
        owner.oldest_used = now
    owner.newest = place
    owner.count += 1


cdef uint32_t *find(SessionPart *part, uint32_t *bucket, const Address *peer) noexcept nogil:
    """The link to a peer's session in its bucket; a link with 0 where it has none."""
    while bucket[0] and not same_peer(&part.sessions[bucket[0]].peer, peer):
        bucket = &part.sessions[bucket[0]].next
    return bucket


cdef inline void set_tlvs(SessionPart *part, Session *session, ProxyTlvs *tlvs, uint32_t worker) noexcept nogil:
    """Instead of those that it has. Takes over the reference."""
    if session.tlvs != NULL:
        part.tlvs -= session.tlvs.length
        tlvs_unref(session.tlvs, worker)
    if tlvs != NULL:
        part.tlvs += tlvs.length
    session.tlvs = tlvs


cdef void remove(SessionPart *part, uint32_t *link, uint32_t worker) noexcept nogil:
    cdef uint32_t place = link[0]
    link[0] = part.sessions[place].next
    unlink_owner(part, place)
    set_tlvs(part, &part.sessions[place], NULL, worker)
    part.sessions[place].next = part.free
    part.free = place
    part.count -= 1


cdef uint32_t find_victim(const SessionPart *part, int64_t expired) noexcept nogil:
    """A session that was last used before `expired`; without any, the oldest of the owner that has most, of equals of the one that is older."""
    cdef const SessionOwner *owner
    cdef const SessionOwner *chosen = NULL
    cdef int i
    for i in range(SESSION_OWNERS):
        owner = &part.owners[i]
        if owner.count == 0:
            continue
        if owner.oldest_used < expired:
            return owner.oldest
        if chosen == NULL or owner.count > chosen.count or owner.count == chosen.count and owner.oldest_used < chosen.oldest_used:
            chosen = owner
    return chosen.oldest


cdef void evict(const SessionTable *table, SessionPart *part, int64_t expired, uint32_t worker) noexcept nogil:
    cdef uint32_t place = find_victim(part, expired)
    cdef uint8_t owner
    remove(part, find(part, &part.buckets[<uint32_t>hash_peer(&part.sessions[place].peer, &owner) & table.mask], &part.sessions[place].peer), worker)


cdef uint32_t take(SessionTable *table, SessionPart *part, int64_t expired, uint32_t worker) noexcept nogil:
    """A free session; one ends if there is none."""
    cdef uint32_t place
    if part.free == 0 and part.made < table.capacity:
        part.made += 1
        part.count += 1
        return part.made
    if part.free == 0:
        evict(table, part, expired, worker)
    place = part.free
    part.free = part.sessions[place].next
    part.count += 1
    return place


# ---- the table ----

cdef inline SessionPart *lock(SessionTable *table, uint64_t hash) noexcept nogil:
    cdef SessionPart *part = &table.part[hash >> 60 & (table.parts - 1)]
    while not spin_try(&part.lock):
        sched_yield()               # its holder, another worker, has lost its CPU
    return part


cdef bint session_find(SessionTable *table, const Address *peer, int64_t now, int64_t lifetime, uint32_t worker, Address *client,
                       ProxyTlvs **tlvs) noexcept nogil:
    cdef uint8_t owner
    cdef uint64_t hash = hash_peer(peer, &owner)
    cdef SessionPart *part = lock(table, hash)
    cdef uint32_t *link = find(part, &part.buckets[<uint32_t>hash & table.mask], peer)
    cdef uint32_t place = link[0]
    cdef bint found = False
    if place and now - part.sessions[place].used >= lifetime:
        remove(part, link, worker)
    elif place:
        client[0] = part.sessions[place].client
        if tlvs != NULL:
            tlvs[0] = tlvs_ref(part.sessions[place].tlvs)
        unlink_owner(part, place)
        use(part, place, now)
        found = True
    spin_free(&part.lock)
    return found


cdef void session_store(SessionTable *table, const Address *peer, int64_t now, int64_t lifetime, uint32_t worker, const Address *client,
                        ProxyTlvs *tlvs) noexcept nogil:
    cdef uint8_t owner
    cdef uint64_t hash = hash_peer(peer, &owner)
    cdef SessionPart *part = lock(table, hash)
    cdef uint32_t *bucket = &part.buckets[<uint32_t>hash & table.mask]
    cdef uint32_t place = find(part, bucket, peer)[0]
    cdef Session *session
    if place:
        session = &part.sessions[place]
        unlink_owner(part, place)
    else:
        place = take(table, part, now - lifetime, worker)
        session = &part.sessions[place]
        session.peer = peer[0]
        session.owner = owner
        session.next = bucket[0]
        bucket[0] = place
    session.client = client[0]
    set_tlvs(part, session, tlvs_ref(tlvs), worker)
    use(part, place, now)
    while part.tlvs > <uint64_t>table.capacity * SESSION_TLVS + TLVS_MAX:
        evict(table, part, now - lifetime, worker)
    spin_free(&part.lock)


LIMIT = SESSIONS_MAX


cdef class Sessions:
    def __cinit__(self, uint32_t capacity):
        cdef uint32_t i, buckets = 1
        if not 1 <= capacity <= SESSIONS_MAX:
            raise ValueError(f"{capacity} sessions")
        self.capacity = capacity
        self.table.parts = 1
        while self.table.parts < SESSION_PARTS and capacity // (2 * self.table.parts) >= SESSION_PART_MIN:
            self.table.parts *= 2
        self.table.capacity = capacity // self.table.parts
        while buckets < self.table.capacity:
            buckets *= 2
        self.table.mask = buckets - 1
        self.table.part = <SessionPart *>calloc(self.table.parts, sizeof(SessionPart))
        if self.table.part == NULL:
            raise MemoryError
        for i in range(self.table.parts):
            # Large blocks, whose pages the kernel gives when they are first used.
            self.table.part[i].buckets = <uint32_t *>calloc(buckets, sizeof(uint32_t))
            self.table.part[i].sessions = <Session *>calloc(self.table.capacity + 1, sizeof(Session))
            if self.table.part[i].buckets == NULL or self.table.part[i].sessions == NULL:
                raise MemoryError

    def __dealloc__(self):
        cdef uint32_t i, place
        if self.table.part == NULL:
            return
        for i in range(self.table.parts):
            if self.table.part[i].sessions != NULL:
                for place in range(1, self.table.part[i].made + 1):
                    tlvs_unref(self.table.part[i].sessions[place].tlvs, METRIC_CONTROL)
            free(self.table.part[i].buckets)
            free(self.table.part[i].sessions)
        free(self.table.part)

    def __len__(self):
        return sum([self.table.part[i].count for i in range(self.table.parts)])

    @property
    def tlvs(self):
        return sum([self.table.part[i].tlvs for i in range(self.table.parts)])

    def store(self, peer, int64_t now, int64_t lifetime, client, bytes tlvs not None=b""):
        cdef Address key = address_of(peer)
        cdef Address value = address_of(client)
        cdef ProxyTlvs *kept = tlvs_new(tlvs, <uint32_t>len(tlvs), METRIC_CONTROL)
        session_store(&self.table, &key, now, lifetime, METRIC_CONTROL, &value, kept)
        tlvs_unref(kept, METRIC_CONTROL)

    def find(self, peer, int64_t now, int64_t lifetime):
        cdef Address key = address_of(peer)
        cdef Address client
        if not session_find(&self.table, &key, now, lifetime, METRIC_CONTROL, &client, NULL):
            return None
        octets = client.octets[:4 if client.family == 4 else 16]
        return bytes(octets), client.port

    def find_tlvs(self, peer, int64_t now, int64_t lifetime):
        cdef Address key = address_of(peer)
        cdef Address client
        cdef ProxyTlvs *tlvs = NULL
        session_find(&self.table, &key, now, lifetime, METRIC_CONTROL, &client, &tlvs)
        if tlvs == NULL:
            return b""
        found = (<const uint8_t *>tlvs.octets)[:tlvs.length]
        tlvs_unref(tlvs, METRIC_CONTROL)
        return found


cdef Address address_of(pair) except *:
    cdef Address address
    octets, port = pair
    memset(&address, 0, sizeof(address))
    address.family = 4 if len(octets) == 4 else 6
    memcpy(address.octets, <const uint8_t *><bytes>octets, len(octets))
    address.port = port
    return address
