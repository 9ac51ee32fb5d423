"""What a cache holds, and what is removed from it. The contract is in _contents.pxd."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from fastdns.api.memory cimport atomic_add32, atomic_exchange32, atomic_fence, atomic_load_pointer
from fastdns.api.metrics cimport metric_add
from fastdns.api.names cimport Name, wire_name_copy, wire_name_hash
from fastdns.api.worker cimport Worker, mailbox_push, mailbox_take, mux_worker_count, mux_workers
from fastdns.plugins.cache._store cimport (CHANGES, DENIAL, SUCCESS, store_close, store_open, store_open_subtrees, store_reclaim, store_remove,
                                           store_sweep, subtree_head)
from fastdns._wire import name_wire

cdef enum:
    TURN = 4096                 # entries and chains that a worker looks at in one turn, about a tenth of a millisecond

cdef uint8_t[1] ROOT = [0]
cdef ChangedName blank_name
cdef size_t NAME_HEAD = <size_t>(<uint8_t *>&blank_name.wire - <uint8_t *>&blank_name)
cdef uint32_t made = 0          # contents so far


# ---- any thread ----

cdef void contents_change(Contents *contents, const uint8_t *name, uint32_t length) noexcept nogil:
    cdef uint32_t hash = wire_name_hash(name)
    if raise_number(contents, hash):
        tell(contents, name, length, hash, True, False)


cdef void contents_change_name(Contents *contents, const Name *name, bint below) noexcept nogil:
    cdef uint32_t i, subtree = subtree_of(contents, name)
    if below:
        for i in range(CHANGES):
            atomic_add32(subtree_change(contents.store.subtrees, i), 1)
        tell(contents, name.lower, name.length, subtree, True, True)
    elif raise_number(contents, subtree):
        tell(contents, name.lower, name.length, subtree, False, False)


cdef inline bint raise_number(Contents *contents, uint32_t subtree) noexcept nogil:
    """False: nothing of the subtree is there to be removed."""
    atomic_add32(subtree_change(contents.store.subtrees, subtree), 1)
    atomic_fence()
    return atomic_load_pointer(<void **>subtree_head(contents.store.subtrees, subtree)) != NULL


cdef void tell(Contents *contents, const uint8_t *name, uint32_t length, uint32_t subtree, bint below, bint swept) noexcept nogil:
    cdef ChangedName *changed
    if mux_worker_count == 0:
        return
    changed = <ChangedName *>malloc(NAME_HEAD + length)
    if changed != NULL:
        changed.name.next = NULL
        changed.name.wire = changed.wire
        changed.name.length = <uint8_t>length
        changed.name.below = below
        changed.subtree = subtree
        changed.swept = swept
        memcpy(changed.wire, name, length)
        mailbox_push(&contents.changed, &changed.item)
    else:
        atomic_exchange32(&contents.incomplete, 1)
    post(contents)


cdef void post(Contents *contents) noexcept nogil:
    cdef Worker *worker = mux_workers[contents.number % mux_worker_count]
    if atomic_exchange32(&contents.posted, 1):
        return
    contents_hold(contents)
    worker.ops.post(worker, &contents.mail)


# ---- the worker ----

cdef void run(Mail *mail, Worker *worker) noexcept nogil:
    cdef Contents *contents = <Contents *>mail
    cdef uint32_t removed[2]
    cdef int64_t budget = TURN
    cdef int i
    removed[SUCCESS] = 0
    removed[DENIAL] = 0
    atomic_exchange32(&contents.posted, 0)
    receive(contents)
    if contents.rest != NULL:
        remove_rest(contents, removed, &budget)
    if contents.sweeping or contents.unswept != NULL or contents.incomplete:
        sweep(contents, removed, &budget)
    store_reclaim(&contents.store)
    for i in range(2):
        if removed[i]:
            metric_add(contents.cells[i], worker.id, removed[i])
    if contents.rest != NULL or contents.sweeping or contents.unswept != NULL or contents.incomplete:
        post(contents)          # the budget is spent, or another worker held a lock: on, in the next turn
    contents_release(contents)


cdef void receive(Contents *contents) noexcept nogil:
    """Shares out the names that have come."""
    cdef MailboxItem *following = mailbox_take(&contents.changed)
    cdef MailboxItem *item
    while following != NULL:
        item = following
        following = item.next
        if (<ChangedName *>item).swept:
            item.next = contents.unswept
            contents.unswept = item
        else:
            item.next = contents.rest
            contents.rest = item


cdef void remove_rest(Contents *contents, uint32_t *removed, int64_t *budget) noexcept nogil:
    cdef MailboxItem *following = contents.rest
    cdef ChangedName *changed
    contents.rest = NULL
    while following != NULL:
        changed = <ChangedName *>following
        following = changed.item.next
        budget[0] -= 1
        if budget[0] > 0 and store_remove(&contents.store, &changed.name, changed.subtree, removed, budget):
            free(changed)
        else:
            changed.item.next = contents.rest
            contents.rest = &changed.item


cdef void sweep(Contents *contents, uint32_t *removed, int64_t *budget) noexcept nogil:
    if not contents.sweeping:
        begin_sweep(contents)
    if store_sweep(&contents.store, &contents.all if contents.all.wire != NULL else &(<ChangedName *>contents.swept).name, &contents.at, removed, budget):
        free_names(contents.swept)
        contents.swept = NULL
        contents.sweeping = 0


cdef void begin_sweep(Contents *contents) noexcept nogil:
    """Of all names that have come until now: a later one may be of a chain that was swept."""
    cdef MailboxItem *item = contents.unswept
    contents.all.wire = ROOT if atomic_exchange32(&contents.incomplete, 0) else NULL
    contents.all.length = 1
    contents.all.below = 1
    contents.swept = item
    contents.unswept = NULL
    contents.sweeping = 1
    contents.at = 0
    while item != NULL:
        (<ChangedName *>item).name.next = &(<ChangedName *>item.next).name if item.next != NULL else NULL
        item = item.next


# ---- life ----

cdef void contents_hold(Contents *contents) noexcept nogil:
    atomic_add32(&contents.references, 1)


cdef void contents_release(Contents *contents) noexcept nogil:
    if atomic_add32(&contents.references, <uint32_t>-1) == 0:
        free_names(contents.rest)
        free_names(contents.unswept)
        free_names(contents.swept)
        free_names(mailbox_take(&contents.changed))
        store_close(&contents.store)
        free(contents.depths)
        free(contents)


cdef void free_names(MailboxItem *item) noexcept nogil:
    cdef MailboxItem *following
    while item != NULL:
        following = item.next
        free(item)
        item = following


cdef class SharedContents:

    def __cinit__(self, success, denial):
        global made
        self.contents = <Contents *>calloc(1, sizeof(Contents))
        if self.contents == NULL or store_open(&self.contents.store, success, denial) < 0:
            raise MemoryError
        self.contents.mail.run = run
        self.contents.references = 1
        self.contents.number = made
        made += 1

    def __dealloc__(self):
        if self.contents != NULL:
            with nogil:
                contents_release(self.contents)

    cdef int open_subtrees(self, list cuts) except -1:
        cdef Contents *contents = self.contents
        cdef ZoneList listed
        cdef uint32_t i
        if contents.cuts != NULL:
            return 0
        listed = ZoneList([zone for zone, _ in cuts])
        depths = {name_wire(zone).lower(): depth for zone, depth in cuts}
        contents.depths = <uint8_t *>calloc(listed.zones.count + 1, 1)
        if contents.depths == NULL or (contents.store.subtrees == NULL and store_open_subtrees(&contents.store) < 0):
            raise MemoryError
        for i in range(listed.zones.count):
            contents.depths[i] = depths[<bytes>listed.zones.names[i].wire[: listed.zones.names[i].length]]
        self.cuts = listed
        contents.cuts = &listed.zones
        return 0

    def change(self, bytes name not None, bint below):
        cdef Name changed
        wire_name_copy(&changed, name, <int>len(name))
        with nogil:
            contents_change_name(self.contents, &changed, below)
