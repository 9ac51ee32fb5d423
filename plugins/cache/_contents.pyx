"""What a cache holds, and what is removed from it. The contract is in _contents.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy
from fastdns.api.memory cimport atomic_add32, atomic_exchange32, atomic_fence, atomic_load_pointer
from fastdns.api.metrics cimport metric_add
from fastdns.api.names cimport wire_name_hash
from fastdns.api.worker cimport Worker, mailbox_push, mailbox_take, mux_worker_count, mux_workers
from fastdns.plugins.cache._store cimport (DENIAL, SUCCESS, store_close, store_open, store_open_subtrees, store_reclaim, store_remove_all,
                                           store_remove_below, subtree_head)
from fastdns._wire import name_wire

cdef ChangedName blank_name
cdef size_t NAME_HEAD = <size_t>(<uint8_t *>&blank_name.wire - <uint8_t *>&blank_name)
cdef uint32_t made = 0          # contents so far


# ---- any thread ----

cdef void contents_change(Contents *contents, const uint8_t *name, uint32_t length) noexcept nogil:
    cdef uint32_t hash = wire_name_hash(name)
    cdef ChangedName *changed
    if mux_worker_count == 0:
        return
    atomic_add32(subtree_change(contents.store.subtrees, hash), 1)
    atomic_fence()
    if atomic_load_pointer(<void **>subtree_head(contents.store.subtrees, hash)) == NULL:
        return
    changed = <ChangedName *>malloc(NAME_HEAD + length)
    if changed != NULL:
        changed.hash = hash
        changed.length = <uint8_t>length
        memcpy(changed.wire, name, length)
        mailbox_push(&contents.changed, &changed.item)
    else:
        atomic_exchange32(&contents.incomplete, 1)
    post(contents)


cdef void post(Contents *contents) noexcept nogil:
    cdef Worker *worker = mux_workers[contents.number % mux_worker_count]
    if atomic_exchange32(&contents.posted, 1):
        return
    atomic_add32(&contents.references, 1)
    worker.ops.post(worker, &contents.mail)


# ---- the worker ----

cdef void run(Mail *mail, Worker *worker) noexcept nogil:
    cdef Contents *contents = <Contents *>mail
    cdef uint32_t removed[2]
    cdef MailboxItem *items[2]
    cdef MailboxItem *item
    cdef int i
    removed[SUCCESS] = 0
    removed[DENIAL] = 0
    atomic_exchange32(&contents.posted, 0)
    items[0] = contents.rest
    items[1] = mailbox_take(&contents.changed)
    contents.rest = NULL
    for i in range(2):
        while items[i] != NULL:
            item = items[i]
            items[i] = item.next
            take_out(contents, <ChangedName *>item, removed)
    if atomic_exchange32(&contents.incomplete, 0) and not store_remove_all(&contents.store, removed):
        atomic_exchange32(&contents.incomplete, 1)
    store_reclaim(&contents.store)
    for i in range(2):
        if removed[i]:
            metric_add(contents.cells[i], worker.id, removed[i])
    if contents.rest != NULL or contents.incomplete:
        post(contents)          # another worker held a lock: on, in the next turn
    release(contents)


cdef void take_out(Contents *contents, ChangedName *changed, uint32_t *removed) noexcept nogil:
    if store_remove_below(&contents.store, changed.wire, changed.length, changed.hash, removed):
        free(changed)
    else:
        changed.item.next = contents.rest
        contents.rest = &changed.item


# ---- life ----

cdef void release(Contents *contents) noexcept nogil:
    if atomic_add32(&contents.references, <uint32_t>-1) == 0:
        free_names(contents.rest)
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
                release(self.contents)

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
