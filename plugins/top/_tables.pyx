"""The tables of *top*. The contract is in _tables.pxd."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, strlen
from fastdns.api.memory cimport atomic_exchange32, atomic_store32
from fastdns.api.metadata cimport Label, label_read
from fastdns.api.names cimport LABELS_MAX, Name, ZoneName, zones_match
from fastdns.api.query cimport ERROR_MAX, TRANSPORT_NONE, Query, query_was_dropped
from fastdns.api.random cimport hash_octets, hash_seed, random_below
from fastdns.api.reply cimport KIND_NODATA, reply_kind
from fastdns.api.text cimport Text
from fastdns.api.wire cimport RCODE_NXDOMAIN, RCODE_SERVFAIL, TYPE_AAAA, flags_opcode
from fastdns.api.worker cimport WORKERS_MAX
from fastdns.plugins.top._summary cimport SUMMARY_DATA, Summary, SummaryRow, summary_add, summary_clear, summary_least, summary_merge

cdef extern from "<sched.h>" nogil:
    int sched_yield() noexcept

cdef enum:
    SPAN = 100000000                # ns, after which the weight is chosen anew
    WEIGHT_MAX = 65536
    LARGE = 1232                    # octets: larger replies over UDP may be fragmented (DNS flag day 2020)
    SLOW = 1000000                  # ns that a query has waited, at least
    KEY_MAX = SUMMARY_DATA - 1      # octets; one is for the mark of a name that was cut


assert WORKERS_MAX == 64


# ---- on a worker ----

cdef void top_add(TopWorker *worker, const TopOptions *options, Query *q) noexcept nogil:
    """Counts a query, for `weight` of them, and chooses how many are skipped after it."""
    cdef uint32_t weight = worker.weight if worker.weight else 1
    if not atomic_exchange32(&worker.lock, 1):
        if worker.set != NULL and q.parent == NULL and q.transport != TRANSPORT_NONE:
            add_query(worker.set, options, q, weight)
            if weight > worker.set.weight:
                worker.set.weight = weight
        atomic_store32(&worker.lock, 0)
    worker.seen += weight
    if q.worker.now - worker.began >= SPAN:
        choose_weight(worker, q.worker.now)
    worker.skip = 1 if worker.weight <= 1 else 1 + random_below(&q.worker.random, 2 * worker.weight - 1)


cdef void choose_weight(TopWorker *worker, int64_t now) noexcept nogil:
    """The least power of two with which EVERY_QUERY_MAX a second count at the rate of the last span."""
    cdef uint64_t rate = worker.seen * 1000000000 // <uint64_t>(now - worker.began)
    cdef uint32_t weight = 1
    while rate // weight > EVERY_QUERY_MAX and weight < WEIGHT_MAX:
        weight *= 2
    worker.weight = weight
    worker.began = now
    worker.seen = 0


cdef void add_query(TopSet *tables, const TopOptions *options, Query *q, uint32_t weight) noexcept nogil:
    cdef const Name *name = &q.first_name
    cdef uint32_t rcode = q.reply.rcode
    cdef int64_t took
    cdef bint dropped = query_was_dropped(q)
    add_name(&tables.tables[<int>TABLE_NAMES], name.lower, name.length, weight)
    if name.labels >= 2:
        add_name(&tables.tables[<int>TABLE_DOMAINS], name.lower + name.offset[name.labels - 2], name.length - name.offset[name.labels - 2], weight)
    add_client(&tables.tables[<int>TABLE_CLIENTS], options, q, weight)
    if (q.packet == q.packet_copy or q.packet_owned):       # it was parked
        took = q.worker.now - q.received
        if took >= SLOW:
            add_name(&tables.tables[<int>TABLE_SLOW_NAMES], name.lower, name.length, <uint64_t>(took // 1000) * weight)
    if dropped:
        return
    if q.reply.size > LARGE:
        add_name(&tables.tables[<int>TABLE_LARGE_ANSWERS], name.lower, name.length, weight)
    if rcode == RCODE_NXDOMAIN:
        add_name(&tables.tables[<int>TABLE_NXDOMAIN_NAMES], name.lower, name.length, weight)
        add_client(&tables.tables[<int>TABLE_NXDOMAIN_CLIENTS], options, q, weight)
        add_search(&tables.tables[<int>TABLE_SEARCH_WASTE], options, name, weight)
    elif rcode == RCODE_SERVFAIL:
        add_cause(&tables.tables[<int>TABLE_SERVFAIL_CAUSES], q, weight)
    elif q.qtype == TYPE_AAAA and reply_kind(&q.reply, q.qtype, flags_opcode(q.message.flags)) == KIND_NODATA:
        add_name(&tables.tables[<int>TABLE_AAAA_WASTE], name.lower, name.length, weight)


cdef void add_name(Summary *table, const uint8_t *lower, uint32_t length, uint64_t count) noexcept nogil:
    """Of a name that is too long its last labels are kept, and a mark; the hash tells it from others."""
    cdef uint64_t hashed = hash_octets(lower, length, hash_seed)
    cdef uint32_t whole = length
    cdef SummaryRow *row
    cdef bint fresh
    while length > KEY_MAX:
        length -= lower[0] + 1
        lower += lower[0] + 1
    row = summary_add(table, hashed, lower, length, count, 0, &fresh)
    if length < whole and fresh:
        row.data[length] = 1
        row.length += 1


cdef void add_client(Summary *table, const TopOptions *options, Query *q, uint64_t count) noexcept nogil:
    """By its address. What is known of its pod is read when it comes into the table."""
    cdef uint8_t key[17]
    cdef uint32_t length = 5 if q.client.family == 4 else 17
    cdef SummaryRow *row
    cdef bint fresh
    key[0] = q.client.family
    memcpy(key + 1, q.client.octets, length - 1)
    row = summary_add(table, hash_octets(key, length, hash_seed), key, length, count, 0, &fresh)
    if fresh and options.namespace != NULL:
        add_detail(row, options.namespace, q)
        add_detail(row, options.pod, q)
        add_detail(row, options.node, q)


cdef void add_detail(SummaryRow *row, const Label *label, Query *q) noexcept nogil:
    """A label's value, after its length in an octet; empty where it is not known or does not fit."""
    cdef Text text
    cdef uint8_t *length = &row.data[row.length]
    if row.length >= SUMMARY_DATA:
        return
    text.out, text.used, text.capacity, text.full = <char *>length + 1, 0, SUMMARY_DATA - row.length - 1, 0
    length[0] = 0
    row.length += 1
    if label != NULL and label_read(label, q, &text) and not text.full:
        length[0] = <uint8_t>text.used
        row.length += <uint8_t>text.used


cdef void add_search(Summary *table, const TopOptions *options, const Name *name, uint64_t count) noexcept nogil:
    """What was looked for by way of a search domain: what stands before ZONE or svc.ZONE, if it has two labels at least."""
    cdef const ZoneName *zone = zones_match(options.search, name)
    cdef uint8_t key[SUMMARY_DATA]
    cdef uint32_t labels, length, in_services = 0
    cdef bint fresh
    if zone == NULL:
        return
    labels = name.labels - zone.labels
    if labels and name.lower[name.offset[labels - 1]] == 3 and name.lower[name.offset[labels - 1] + 1] == c"s" \
            and name.lower[name.offset[labels - 1] + 2] == c"v" and name.lower[name.offset[labels - 1] + 3] == c"c":
        in_services = 1
        labels -= 1
    if labels < 2 or labels > LABELS_MAX:
        return
    length = name.offset[labels]
    if length + 2 > KEY_MAX:
        return
    key[0] = <uint8_t>in_services
    memcpy(key + 1, name.lower, length)
    key[length + 1] = 0
    length += 2
    summary_add(table, hash_octets(key, length, hash_seed), key, length, count, 0, &fresh)


cdef void add_cause(Summary *table, const Query *q, uint64_t count) noexcept nogil:
    """The plugin that failed or answered, and the error's text without the port that it was asked from."""
    cdef char text[KEY_MAX]
    cdef uint32_t used = 0, word, i = 0, position = q.writer if q.reply.written else q.deepest
    cdef const char *name
    cdef bint fresh
    if q.chain != NULL and position < q.chain.count:
        name = q.chain.handlers[position].name
        used = <uint32_t>strlen(name)
        used = used if used < KEY_MAX else KEY_MAX
        memcpy(text, name, used)
    if q.error[0] and used + 2 < KEY_MAX:
        memcpy(text + used, b": ", 2)
        used += 2
        word = used
        while i < ERROR_MAX and q.error[i] and used < KEY_MAX:
            if q.error[i] == c"-" and i + 1 < ERROR_MAX and q.error[i + 1] == c">":
                used = word         # an address of ours, with a port of its own in each query
                i += 2
                continue
            text[used] = q.error[i]
            used += 1
            if q.error[i] == c" ":
                word = used
            i += 1
    summary_add(table, hash_octets(<const uint8_t *>text, used, hash_seed), <const uint8_t *>text, used, count, 0, &fresh)


# ---- on the control side ----

cdef void clear_set(TopSet *tables) noexcept nogil:
    cdef int i
    tables.weight = 0
    for i in range(<int>TABLES):
        summary_clear(&tables.tables[i])


cdef TopSet *exchange_set(TopWorker *worker, TopSet *other) noexcept nogil:
    """Gives a worker another set, and returns the one that it had, which nobody uses any more."""
    cdef TopSet *before
    while atomic_exchange32(&worker.lock, 1):
        sched_yield()
    before = worker.set
    worker.set = other
    atomic_store32(&worker.lock, 0)
    return before


cdef class Tables:
    """Tables(): of all that workers count from `begin` on. The methods are for one thread at a time."""
    cdef TopSet *spare              # cleared
    cdef uint32_t workers

    def __cinit__(self):
        self.spare = NULL
        self.workers = 0

    def __dealloc__(self):
        self.close()

    def begin(self, uint32_t workers):
        cdef TopSet *made
        cdef uint32_t i
        self.spare = <TopSet *>calloc(1, sizeof(TopSet))
        if self.spare == NULL:
            raise MemoryError
        clear_set(self.spare)
        for i in range(min(workers, <uint32_t>WORKERS_MAX)):
            made = <TopSet *>calloc(1, sizeof(TopSet))
            if made == NULL:
                self.close()
                raise MemoryError
            clear_set(made)
            free(exchange_set(&top_workers[i], made))
            self.workers = i + 1

    def close(self):
        cdef uint32_t i
        for i in range(self.workers):
            free(exchange_set(&top_workers[i], NULL))
        self.workers = 0
        free(self.spare)
        self.spare = NULL

    def drain(self, TableSet into not None):
        cdef TopSet *taken
        cdef uint32_t i
        if self.spare == NULL:
            return
        with nogil:
            for i in range(self.workers):
                taken = exchange_set(&top_workers[i], self.spare)
                merge_set(into.set, taken)
                clear_set(taken)
                self.spare = taken


cdef void merge_set(TopSet *into, const TopSet *other) noexcept nogil:
    cdef int i
    into.weight = max(into.weight, other.weight)
    for i in range(<int>TABLES):
        summary_merge(&into.tables[i], &other.tables[i])


cdef class TableSet:
    """TableSet(): the tables of a span of time."""
    cdef TopSet *set

    def __cinit__(self):
        self.set = <TopSet *>calloc(1, sizeof(TopSet))
        if self.set == NULL:
            raise MemoryError
        clear_set(self.set)

    def __dealloc__(self):
        free(self.set)

    def merge(self, TableSet other not None):
        with nogil:
            merge_set(self.set, other.set)

    def add(self, uint32_t table, bytes key not None, uint64_t count):
        cdef bint fresh
        if table >= <uint32_t>TABLES or len(key) > KEY_MAX:
            raise ValueError(f"no table {table}, or a key of {len(key)} octets")
        summary_add(&self.set.tables[table], hash_octets(key, <uint32_t>len(key), hash_seed), key, <uint32_t>len(key), count, 0, &fresh)

    def read(self) -> tuple:
        cdef Summary *table
        cdef const SummaryRow *row
        cdef uint32_t i
        cdef int number
        found = []
        for number in range(<int>TABLES):
            table = &self.set.tables[number]
            rows = []
            for i in range(table.used):
                row = &table.rows[i]
                rows.append((row.hash, row.data[:row.key_length], row.data[row.key_length:row.length], row.count, row.error))
            found.append((table.total, summary_least(table), rows))
        return tuple(found)

    def weight(self) -> int:
        return max(self.set.weight, 1)

    def clear(self):
        clear_set(self.set)
