"""TLS handshakes on native threads. The contract is in engine/handshake.pxd."""
import os
import resource

from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.stdlib cimport calloc, free
from fastdns.engine.timer cimport Wheel, wheel_init, wheel_start, wheel_stop, wheel_timeout, wheel_turn
from fastdns.system.atomic cimport atomic_add32, atomic_peek32
from fastdns.system.hash cimport hash_octets, hash_seed
from fastdns.system.list cimport List, ListNode, list_append, list_container, list_first, list_init, list_next, list_remove
from fastdns.system.mailbox cimport (Mailbox, MailboxItem, mailbox_begin_sleep, mailbox_clear, mailbox_empty, mailbox_end_sleep, mailbox_open,
                                     mailbox_post, mailbox_take)
from fastdns.system.socket cimport (EPOLLIN, EPOLLOUT, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, SHUT_RDWR, close,
                                    epoll_create1, epoll_ctl, epoll_event, epoll_wait, recv, shutdown, socket_clock)
from fastdns.system.thread cimport thread_start
from fastdns.engine.io.connection cimport service_leave_place, service_ref, service_unref
from fastdns.proxy.tlvs cimport tlvs_unref
from fastdns.telemetry.metrics cimport METRIC_CONTROL
from fastdns.tls.record cimport TLS_DONE, TLS_FAILED, TLS_WANTS_WRITE, TlsStatus, tls_accept, tls_end, tls_handshake, tls_keep, tls_lend

cdef extern from *:
    """
    #include <pthread.h>
    #include <sys/resource.h>
    static pthread_mutex_t handshake_mutex = PTHREAD_MUTEX_INITIALIZER;
    #define handshake_lock() pthread_mutex_lock(&handshake_mutex)
    #define handshake_unlock() pthread_mutex_unlock(&handshake_mutex)
    /* Of the calling thread alone, as Linux has it. */
    static inline void lower_priority(int steps) {
        int before = getpriority(PRIO_PROCESS, 0);
        setpriority(PRIO_PROCESS, 0, before + steps);
    }
    """
    void handshake_lock() noexcept nogil
    void handshake_unlock() noexcept nogil
    void lower_priority(int steps) noexcept nogil

cdef enum:
    EVENTS_MAX = 64
    BUCKETS = 4096                  # that clients' addresses are counted in

cdef struct HandshakeThread:
    int epoll
    Mailbox mailbox                 # of Handshakes, from workers
    Wheel wheel
    uint32_t count                  # given to it and not through; atomic

cdef struct Registry:               # all that are under way, of every thread; under the lock
    List handshakes                 # the oldest first
    uint32_t count
    uint32_t limit
    uint32_t held_by[BUCKETS]

cdef HandshakeThread *threads[THREADS_MAX]      # never freed
cdef uint32_t thread_count = 0
cdef uint32_t started = 0           # threads that have taken their number; atomic
cdef Registry registry
list_init(&registry.handshakes)


# ---- on a worker ----

cdef int handshake_begin(Worker *worker, int fd, StreamService *service, uint32_t listener, uint32_t generation, const Address *client,
                         const Address *local, int64_t since, int64_t deadline, ProxyTlvs *tlvs,
                         void (*finished)(Handshake *handshake, Worker *worker) noexcept nogil) noexcept nogil:
    cdef Handshake *handshake = <Handshake *>calloc(1, sizeof(Handshake))
    cdef uint32_t i
    if handshake == NULL:
        return -1
    handshake.fd = fd
    handshake.service = service
    service_ref(service)
    handshake.listener = listener
    handshake.generation = generation
    handshake.client = client[0]
    if local != NULL:
        handshake.local = local[0]
    handshake.tlvs = tlvs
    handshake.since = since
    handshake.deadline = deadline
    handshake.worker = worker
    handshake.finished = finished
    handshake.mail.run = on_finished
    handshake.timer.fire = on_timeout
    handshake.timer.data = handshake
    # Of IPv6 the network: a client has as many addresses there as it likes.
    handshake.bucket = <uint32_t>hash_octets(client.octets, 4 if client.family == 4 else 8, hash_seed) % BUCKETS
    for i in range(1, thread_count):
        if atomic_peek32(&threads[i].count) < atomic_peek32(&threads[handshake.thread].count):
            handshake.thread = i
    atomic_add32(&threads[handshake.thread].count, 1)
    mailbox_post(&threads[handshake.thread].mailbox, &handshake.mail.item)
    return 0


cdef void on_finished(Mail *mail, Worker *worker) noexcept nogil:
    cdef Handshake *handshake = <Handshake *>mail
    handshake.finished(handshake, worker)
    free(handshake)


cdef inline uint32_t given() noexcept nogil:
    """How many the threads have, linked or not."""
    cdef uint32_t i, count = 0
    for i in range(thread_count):
        count += atomic_peek32(&threads[i].count)
    return count


cdef bint handshake_is_behind() noexcept nogil:
    return given() > 2 * registry.limit


# ---- all that are under way ----

cdef inline Handshake *handshake_of(ListNode *node) noexcept nogil:
    return <Handshake *>list_container(node, <size_t>&(<Handshake *>NULL).node)


cdef inline Handshake *oldest() noexcept nogil:
    return handshake_of(list_first(&registry.handshakes))


cdef inline Handshake *newer_than(const Handshake *handshake) noexcept nogil:
    return handshake_of(list_next(&registry.handshakes, &handshake.node))


cdef void unlink_handshake(Handshake *handshake) noexcept nogil:
    """Under the lock, of one that is linked. It counts no more."""
    handshake.linked = 0
    list_remove(&handshake.node)
    registry.count -= 1
    registry.held_by[handshake.bucket] -= 1


cdef void stop_handshake(Handshake *handshake) noexcept nogil:
    """Under the lock, from any thread, of one that is linked: its own thread finds the end of the connection. Its place is free at once."""
    unlink_handshake(handshake)
    shutdown(handshake.fd, SHUT_RDWR)
    service_leave_place(handshake.service)


cdef void link_handshake(Handshake *handshake) noexcept nogil:
    """The newest. Where there is no place, another one goes: of the address that holds most the oldest."""
    cdef Handshake *other
    cdef Handshake *victim
    handshake_lock()
    if registry.count >= registry.limit:
        victim = other = oldest()
        while other != NULL:
            if registry.held_by[other.bucket] > registry.held_by[victim.bucket]:
                victim = other
            other = newer_than(other)
        stop_handshake(victim)
    list_append(&registry.handshakes, &handshake.node)
    handshake.linked = 1
    registry.count += 1
    registry.held_by[handshake.bucket] += 1
    handshake_unlock()


cdef void handshake_end(uint32_t generation) noexcept nogil:
    cdef Handshake *handshake
    cdef Handshake *newer
    handshake_lock()
    handshake = oldest()
    while handshake != NULL:
        newer = newer_than(handshake)
        if handshake.generation == generation:
            stop_handshake(handshake)
        handshake = newer
    handshake_unlock()


cdef HandshakePlace handshake_make_place(uint32_t generation, int64_t now) noexcept nogil:
    cdef HandshakePlace found = HANDSHAKE_NONE
    cdef Handshake *handshake
    cdef Handshake *slow = NULL         # the oldest one, if it has taken its grace
    cdef Handshake *of_many = NULL      # the oldest one of the address that has most, if these are many
    cdef Handshake *victim = NULL
    cdef uint32_t count = 0
    cdef bint behind        # the threads have not seen many of them yet: which address has most is not known
    handshake_lock()
    behind = given() > registry.count + HANDSHAKE_MANY
    handshake = oldest()
    while handshake != NULL:
        if handshake.generation == generation:
            count += 1
            if slow == NULL and now - handshake.since >= HANDSHAKE_GRACE:
                slow = handshake
            if registry.held_by[handshake.bucket] > (HANDSHAKE_MANY if of_many == NULL else registry.held_by[of_many.bucket]):
                of_many = handshake
        handshake = newer_than(handshake)
    if of_many != NULL and now - of_many.since >= HANDSHAKE_GRACE_MANY:
        victim = of_many
    elif not behind and (of_many == NULL or 2 * registry.held_by[of_many.bucket] <= count):
        victim = slow               # else a client that is slow would make place for those of the address that has most
    if victim != NULL:
        stop_handshake(victim)
        found = HANDSHAKE_STOPPED
    elif of_many != NULL or behind:
        found = HANDSHAKE_SOON
    handshake_unlock()
    return found


# ---- a thread ----

cdef inline void watch(Handshake *handshake, int operation, uint32_t events) noexcept nogil:
    cdef epoll_event event
    event.events = events
    event.data.ptr = handshake
    handshake.events = events
    epoll_ctl(threads[handshake.thread].epoll, operation, handshake.fd, &event)


cdef bint leave_thread(Handshake *handshake) noexcept nogil:
    """False: it was stopped, and has no place any more."""
    cdef bint has_place
    wheel_stop(&threads[handshake.thread].wheel, &handshake.timer)
    watch(handshake, EPOLL_CTL_DEL, 0)
    handshake_lock()
    has_place = handshake.linked
    if has_place:
        unlink_handshake(handshake)
    handshake_unlock()
    atomic_add32(&threads[handshake.thread].count, <uint32_t>-1)
    return has_place


cdef void give_up(Handshake *handshake) noexcept nogil:
    if leave_thread(handshake):
        service_leave_place(handshake.service)
    discard(handshake)


cdef void discard(Handshake *handshake) noexcept nogil:
    """Of one that has left its thread and its place."""
    if handshake.tls != NULL:
        handshake.tls.failed = 1        # no goodbye before there was a greeting
        tls_end(handshake.tls)
    close(handshake.fd)
    service_unref(handshake.service)
    tlvs_unref(handshake.tlvs, METRIC_CONTROL)
    free(handshake)


cdef void on_timeout(Timer *timer, Worker *worker) noexcept nogil:
    give_up(<Handshake *>timer.data)


cdef void on_client(Handshake *handshake) noexcept nogil:
    """The library's object is made with the first octets: who says nothing costs little."""
    link_handshake(handshake)
    watch(handshake, EPOLL_CTL_ADD, EPOLLIN)
    wheel_start(&threads[handshake.thread].wheel, &handshake.timer, handshake.deadline)


cdef bint receive(Handshake *handshake, uint8_t *octets) noexcept nogil:
    """Into INPUT_MAX octets, which are lent to the stream. False when the handshake cannot go on."""
    cdef ssize_t n = recv(handshake.fd, octets, INPUT_MAX, 0)
    if n < 0:
        return errno == EAGAIN or errno == EINTR
    if n == 0:
        return False
    if handshake.tls == NULL:
        handshake.tls = tls_accept(handshake.service.context, handshake.fd)
        if handshake.tls == NULL:
            return False
    return tls_lend(handshake.tls, octets, n) == 0


cdef void on_event(Handshake *handshake, uint32_t events) noexcept nogil:
    cdef uint8_t octets[INPUT_MAX]
    cdef TlsStatus status
    cdef uint32_t wanted
    cdef Worker *worker = handshake.worker
    if not (events & EPOLLOUT) and not receive(handshake, octets):
        give_up(handshake)
        return
    if handshake.tls == NULL:
        return
    status = tls_handshake(handshake.tls)
    if status == TLS_FAILED or tls_keep(handshake.tls) < 0:
        give_up(handshake)
    elif status == TLS_DONE:
        if leave_thread(handshake):
            worker.ops.post(worker, &handshake.mail)
        else:
            discard(handshake)
    else:
        wanted = EPOLLOUT if status == TLS_WANTS_WRITE else EPOLLIN
        if wanted != handshake.events:
            watch(handshake, EPOLL_CTL_MOD, wanted)


cdef void *run_thread(void *argument) noexcept nogil:
    cdef HandshakeThread *thread = threads[atomic_add32(&started, 1) - 1]
    cdef epoll_event events[EVENTS_MAX]
    cdef MailboxItem *item
    cdef MailboxItem *following
    cdef int n, i, timeout
    lower_priority(NICENESS)
    while True:
        timeout = wheel_timeout(&thread.wheel, socket_clock())
        if not mailbox_begin_sleep(&thread.mailbox):
            timeout = 0
        n = epoll_wait(thread.epoll, events, EVENTS_MAX, timeout)
        mailbox_end_sleep(&thread.mailbox)
        for i in range(n):
            if events[i].data.ptr == NULL:
                mailbox_clear(&thread.mailbox)
            else:
                on_event(<Handshake *>events[i].data.ptr, events[i].events)
        item = mailbox_take(&thread.mailbox) if not mailbox_empty(&thread.mailbox) else NULL
        while item != NULL:
            following = item.next
            on_client(<Handshake *>item)
            item = following
        wheel_turn(&thread.wheel, NULL, socket_clock())


cdef HandshakeThread *make_thread() except NULL:
    cdef HandshakeThread *thread = <HandshakeThread *>calloc(1, sizeof(HandshakeThread))
    cdef epoll_event event
    if thread == NULL:
        raise MemoryError
    wheel_init(&thread.wheel, socket_clock())
    thread.epoll = epoll_create1(EPOLL_CLOEXEC)
    if thread.epoll < 0 or mailbox_open(&thread.mailbox) < 0:
        raise OSError(errno, os.strerror(errno))
    event.events = EPOLLIN
    event.data.ptr = NULL           # of the mailbox
    epoll_ctl(thread.epoll, EPOLL_CTL_ADD, thread.mailbox.wake, &event)
    return thread


cdef int handshake_open() except -1:
    global thread_count
    cdef uint32_t i, wanted
    cdef int status
    if thread_count:
        return 0
    registry.limit = min(<uint32_t>HANDSHAKES_MAX, max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 16))
    wanted = min(<uint32_t>THREADS_MAX, len(os.sched_getaffinity(0)))
    for i in range(wanted):
        threads[i] = make_thread()
    for i in range(wanted):
        status = thread_start(run_thread, b"handshake")
        if status:
            if i == 0:
                raise OSError(status, os.strerror(status))
            break
        thread_count = i + 1
    return 0
