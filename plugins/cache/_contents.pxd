"""What a cache holds, and the names that are to be removed from it because their records have changed.

Any thread may say that a name has changed (`contents_change`): it waits for nobody, and a worker removes the entries, since locks of the store are the
workers'. Contents belong to the handlers that share them, two of them while a reload goes on, and to the mail that is under way to workers.

What is cheap to remove together is a subtree: a name with all below it, such as a service's name with its ports' and endpoints'. Where subtrees begin, the
plugins below say by zones and a number of labels; elsewhere each name is one of its own. A query takes the number of its subtree's changes before it goes
down, and its reply is kept only if the number is still the same. All names below another one need a sweep of the whole store, and raise all numbers: the
replies to all queries that are under way are not kept.

A worker removes for a part of a turn, and goes on in the next.

Memory order. The record of a name is released before its subtree's number of changes is raised, and that number is acquired before the record is read.
`posted` is exchanged before the names are taken, and after one was pushed: no name stays behind. `references`: each subtraction is acquired by the last.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from fastdns.api.memory cimport atomic_load32
from fastdns.api.names cimport Name, ZoneList, ZoneName, Zones, zones_match
from fastdns.api.worker cimport Mail, Mailbox, MailboxItem
from fastdns.plugins.cache._store cimport Asked, Store, StoreName, subtree_change

cdef struct ChangedName:
    MailboxItem item            # first; of `changed`, then of `rest` or `unswept`
    StoreName name
    uint32_t subtree            # hash of its subtree's name
    uint8_t swept               # it is to be looked for in all subtrees
    uint8_t wire[255]           # of `name`; the block ends behind the last octet in use

cdef struct Contents:
    Mail mail                   # first; in the worker's mailbox while `posted`
    Store store
    uint32_t references         # atomic
    uint32_t posted             # atomic
    uint32_t incomplete         # atomic; memory for a name ran out: everything goes
    uint32_t number             # says which worker removes
    Mailbox changed             # of ChangedName; nobody sleeps on it
    MailboxItem *rest           # that worker's, like the next four: names of which some entries may be left
    MailboxItem *unswept        # names for the next sweep
    MailboxItem *swept          # of the sweep that goes on; their `name`s are linked
    uint64_t at                 # where it goes on
    uint8_t sweeping
    StoreName all               # the root, for when `incomplete`
    const Zones *cuts           # zones below which subtrees begin; owned by the SharedContents, like the next. NULL: nothing is removed
    uint8_t *depths             # of each of them: labels in front of the zone with which they begin
    uint32_t cells[2]           # metric cells of removed entries, by kind

cdef inline uint32_t subtree_of(const Contents *contents, const Name *name) noexcept nogil:
    """The hash of its subtree's name."""
    cdef const ZoneName *zone = zones_match(contents.cuts, name)
    cdef uint32_t labels, depth
    if zone == NULL:
        return name.hash[0]
    labels = name.labels - zone.labels
    depth = contents.depths[zone - contents.cuts.names]
    return name.hash[labels - depth if labels > depth else 0]

cdef inline void contents_ask(const Contents *contents, const Name *name, Asked *asked) noexcept nogil:
    """A question goes down."""
    if contents.cuts != NULL:
        asked.subtree = subtree_of(contents, name)
        asked.change = atomic_load32(subtree_change(contents.store.subtrees, asked.subtree))

# The records of this name, or below it, have changed. The name is in lower case, and one at which a subtree begins or a name of its own. Any thread.
cdef void contents_change(Contents *contents, const uint8_t *name, uint32_t length) noexcept nogil
# The records of this name, which is in lower case, have changed, and with `below` those of all names below it. Any thread.
cdef void contents_change_name(Contents *contents, const Name *name, bint below) noexcept nogil

# Another holder, and one less: the last one frees the contents.
cdef void contents_hold(Contents *contents) noexcept nogil
cdef void contents_release(Contents *contents) noexcept nogil

cdef class SharedContents:
    cdef Contents *contents
    cdef ZoneList cuts
    cdef object __weakref__
    # Has names removed from now on, before the first is put; zones and their depths.
    cdef int open_subtrees(self, list cuts) except -1
