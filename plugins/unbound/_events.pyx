"""libunbound's events. The contract is in _events.pxd.

Its own small loop (util/mini_event.c) is the model where unbound-event.h leaves a question open: an event that is added a second time counts anew, one whose
time is over still waits for its descriptor, and one that has fired keeps its time.
"""
from libc.stdint cimport uint32_t, int64_t
from libc.stdlib cimport calloc, free
from posix.time cimport timeval
from fastdns.api.network cimport (EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, close, epoll_create1, epoll_ctl,
                                  epoll_event, epoll_wait, socket_clock)
from fastdns.api.worker cimport Timer, Worker, mailbox_clear, wheel_init, wheel_start, wheel_stop, wheel_timeout, wheel_turn
from fastdns.plugins.unbound._library cimport (UB_EVENT_MAGIC, UB_EV_PERSIST, UB_EV_READ, UB_EV_TIMEOUT, UB_EV_WRITE, ub_event, ub_event_base_vmt,
                                               ub_event_vmt)

cdef struct Event:
    ub_event base               # first
    EventLoop *loop
    int fd                      # -1: a timer alone
    short bits                  # UB_EV_*: what it waits for
    void (*callback)(int fd, short bits, void *argument) noexcept nogil
    void *argument              # libunbound's
    Timer timer
    bint watched                # it is in the epoll

cdef ub_event_base_vmt base_functions
cdef ub_event_vmt event_functions


# ---- the loop ----

cdef int loop_open(EventLoop *loop, Mailbox *mailbox) noexcept nogil:
    cdef epoll_event event
    loop.base.magic = UB_EVENT_MAGIC
    loop.base.vmt = &base_functions
    wheel_init(&loop.wheel, socket_clock())
    loop.epoll = epoll_create1(EPOLL_CLOEXEC)
    if loop.epoll < 0:
        return -1
    event.events = EPOLLIN
    event.data.ptr = NULL       # of the mailbox
    return epoll_ctl(loop.epoll, EPOLL_CTL_ADD, mailbox.wake, &event)


cdef void loop_close(EventLoop *loop) noexcept nogil:
    if loop.epoll >= 0:
        close(loop.epoll)
        loop.epoll = -1


cdef void loop_turn(EventLoop *loop, Mailbox *mailbox, int most) noexcept nogil:
    cdef int timeout = wheel_timeout(&loop.wheel, socket_clock())
    cdef Event *event
    if most >= 0 and (timeout < 0 or timeout > most):
        timeout = most
    loop.count = epoll_wait(loop.epoll, loop.ready, READY_MAX, timeout)
    loop.at = 0
    while loop.at < loop.count:
        event = <Event *>loop.ready[loop.at].data.ptr
        if loop.ready[loop.at].events == 0:
            pass                # forgotten by what ran before it
        elif event == NULL:
            mailbox_clear(mailbox)
        else:
            fire(event, loop.ready[loop.at].events)
        loop.at += 1
    loop.count = 0
    wheel_turn(&loop.wheel, NULL, socket_clock())


cdef void fire(Event *event, uint32_t events) noexcept nogil:
    """The event may be gone when its function returns."""
    cdef short bits = 0
    if events & (EPOLLIN | EPOLLERR | EPOLLHUP):
        bits |= UB_EV_READ
    if events & (EPOLLOUT | EPOLLERR | EPOLLHUP):
        bits |= UB_EV_WRITE
    bits &= event.bits
    if not bits:
        return
    if not event.bits & UB_EV_PERSIST:
        stop(event)
    event.callback(event.fd, bits, event.argument)


cdef void on_time(Timer *timer, Worker *worker) noexcept nogil:
    cdef Event *event = <Event *>timer.data
    event.callback(event.fd, UB_EV_TIMEOUT, event.argument)


cdef void stop(Event *event) noexcept nogil:
    cdef EventLoop *loop = event.loop
    cdef epoll_event unused
    cdef int i
    wheel_stop(&loop.wheel, &event.timer)
    if not event.watched:
        return
    event.watched = False
    epoll_ctl(loop.epoll, EPOLL_CTL_DEL, event.fd, &unused)
    for i in range(loop.at, loop.count):
        if loop.ready[i].data.ptr == event:
            loop.ready[i].events = 0


# ---- what libunbound calls ----

cdef ub_event *new_event(ub_event_base *base, int fd, short bits, void (*callback)(int, short, void *) noexcept nogil, void *argument) noexcept nogil:
    cdef Event *event = <Event *>calloc(1, sizeof(Event))
    if event == NULL:
        return NULL
    event.base.magic = UB_EVENT_MAGIC
    event.base.vmt = &event_functions
    event.loop = <EventLoop *>base
    event.fd = fd
    event.bits = bits
    event.callback = callback
    event.argument = argument
    event.timer.fire = on_time
    event.timer.data = event
    return &event.base


cdef void add_bits(ub_event *base, short bits) noexcept nogil:
    (<Event *>base).bits |= bits


cdef void del_bits(ub_event *base, short bits) noexcept nogil:
    (<Event *>base).bits &= ~bits


cdef void set_fd(ub_event *base, int fd) noexcept nogil:
    (<Event *>base).fd = fd


cdef void free_event(ub_event *base) noexcept nogil:
    if base != NULL:
        stop(<Event *>base)
        free(base)


cdef int add(ub_event *base, timeval *time) noexcept nogil:
    cdef Event *event = <Event *>base
    cdef epoll_event wanted
    stop(event)
    if event.fd >= 0 and event.bits & (UB_EV_READ | UB_EV_WRITE):
        wanted.events = (EPOLLIN if event.bits & UB_EV_READ else 0) | (EPOLLOUT if event.bits & UB_EV_WRITE else 0)
        wanted.data.ptr = event
        if epoll_ctl(event.loop.epoll, EPOLL_CTL_ADD, event.fd, &wanted) < 0:
            return -1
        event.watched = True
    if time != NULL:
        wheel_start(&event.loop.wheel, &event.timer, socket_clock() + <int64_t>time.tv_sec * 1000000000 + <int64_t>time.tv_usec * 1000)
    return 0


cdef int remove(ub_event *base) noexcept nogil:
    stop(<Event *>base)
    return 0


cdef int add_timer(ub_event *base, ub_event_base *loop, void (*callback)(int, short, void *) noexcept nogil, void *argument,
                   timeval *time) noexcept nogil:
    cdef Event *event = <Event *>base
    event.callback = callback
    event.argument = argument
    return add(base, time)


base_functions.new_event = new_event
event_functions.add_bits = add_bits
event_functions.del_bits = del_bits
event_functions.set_fd = set_fd
event_functions.free = free_event
event_functions.add = add
event_functions.del_ = remove
event_functions.add_timer = add_timer
event_functions.del_timer = remove
