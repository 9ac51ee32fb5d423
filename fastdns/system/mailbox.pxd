"""A mailbox: many threads post, one consumer takes everything at once, in the order of posting. No locks, no memory of its own.

Items are intrusive: a struct that is posted begins with a `MailboxItem`, and belongs to the consumer from then on. Items of one producer keep
their order.

The consumer sleeps on an eventfd. A producer writes to it only when the consumer has announced that it sleeps (`asleep`): a busy consumer costs
no system call. The consumer announces first and looks for items afterwards, the producer posts first and looks at `asleep` afterwards, with a
full fence in each: no wake-up is missed. One that comes too late makes the next sleep end at once, no more.

Memory order. `mailbox_push` releases an item by its exchange of `newest`, `mailbox_take` acquires all items by its own: items of several producers too,
because a push that reads another one's is part of its release sequence. `asleep` and `newest` are stored by one side and loaded by the other crosswise,
which acquire and release do not order: only the two fences, in `mailbox_wake` and `mailbox_begin_sleep`, keep both from loading the old value.
"""
from libc.stdint cimport uint32_t, uint64_t
from fastdns.system.atomic cimport (atomic_exchange32, atomic_fence, atomic_load32, atomic_load_pointer, atomic_store32, atomic_swap_pointer,
                                    atomic_take_pointer)
from fastdns.system.socket cimport EFD_CLOEXEC, EFD_NONBLOCK, POLLIN, eventfd, poll, pollfd, read, write

cdef struct MailboxItem:
    MailboxItem *next

cdef struct Mailbox:                # zeroed, then mailbox_open
    MailboxItem *newest             # atomic; the others follow by `next`
    uint32_t asleep                 # atomic: 1 while the consumer sleeps or is about to
    int wake                        # eventfd, non-blocking: readable after a wake-up

cdef inline int mailbox_open(Mailbox *box) noexcept nogil:
    """0, or -1 with errno. The consumer counts as asleep until it says otherwise."""
    box.wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
    box.asleep = 1
    return 0 if box.wake >= 0 else -1

# ---- any thread ----

cdef inline void mailbox_push(Mailbox *box, MailboxItem *item) noexcept nogil:
    """Without a wake-up: `mailbox_wake` follows, once for several items."""
    while True:
        item.next = <MailboxItem *>atomic_load_pointer(<void **>&box.newest)
        if atomic_swap_pointer(<void **>&box.newest, item.next, item):
            return

cdef inline void mailbox_interrupt(Mailbox *box) noexcept nogil:
    """Makes the eventfd readable."""
    cdef uint64_t one = 1
    write(box.wake, &one, sizeof(one))

cdef inline void mailbox_wake(Mailbox *box) noexcept nogil:
    """Wakes the consumer if it sleeps."""
    atomic_fence()
    if atomic_load32(&box.asleep) and atomic_exchange32(&box.asleep, 0):
        mailbox_interrupt(box)

cdef inline void mailbox_post(Mailbox *box, MailboxItem *item) noexcept nogil:
    mailbox_push(box, item)
    mailbox_wake(box)

# ---- the consumer ----

cdef inline bint mailbox_empty(Mailbox *box) noexcept nogil:
    return atomic_load_pointer(<void **>&box.newest) == NULL

cdef inline MailboxItem *mailbox_take(Mailbox *box) noexcept nogil:
    """All items, the oldest first, by `next`; NULL: there are none."""
    cdef MailboxItem *rest = <MailboxItem *>atomic_take_pointer(<void **>&box.newest)
    cdef MailboxItem *taken = NULL
    cdef MailboxItem *item
    while rest != NULL:
        item = rest
        rest = item.next
        item.next = taken
        taken = item
    return taken

cdef inline bint mailbox_begin_sleep(Mailbox *box) noexcept nogil:
    """From here on producers write to the eventfd. Whether the consumer may sleep: there is no item yet."""
    atomic_store32(&box.asleep, 1)
    atomic_fence()
    return mailbox_empty(box)

cdef inline void mailbox_end_sleep(Mailbox *box) noexcept nogil:
    atomic_store32(&box.asleep, 0)

cdef inline void mailbox_clear(Mailbox *box) noexcept nogil:
    """The eventfd is readable no more."""
    cdef uint64_t count
    read(box.wake, &count, sizeof(count))

cdef inline MailboxItem *mailbox_wait(Mailbox *box) noexcept nogil:
    """For a consumer that has a thread of its own: sleeps until there are items, and takes them."""
    cdef pollfd watched
    cdef MailboxItem *taken = mailbox_take(box)
    watched.fd = box.wake
    watched.events = POLLIN
    while taken == NULL:
        if mailbox_begin_sleep(box):
            poll(&watched, 1, -1)
        mailbox_end_sleep(box)
        mailbox_clear(box)
        taken = mailbox_take(box)
    return taken

cdef inline MailboxItem *mailbox_collect(Mailbox *box) noexcept nogil:
    """For a consumer on an event loop, which watches `wake`: takes what there is. It counts as asleep all the time between two calls."""
    mailbox_clear(box)
    mailbox_begin_sleep(box)
    return mailbox_take(box)
