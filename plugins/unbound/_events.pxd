"""The event loop that libunbound runs on: descriptors in an epoll, and a wheel of timers. One thread has it.

libunbound brings its sockets and timers by the table of functions that its pluggable event API asks for (unbound-event.h).
"""
from fastdns.api.network cimport epoll_event
from fastdns.api.worker cimport Mailbox, Wheel
from fastdns.plugins.unbound._library cimport ub_event_base

cdef enum:
    READY_MAX = 64              # descriptors that are looked at together

cdef struct EventLoop:
    ub_event_base base          # first: what libunbound knows of it
    int epoll
    Wheel wheel
    epoll_event ready[READY_MAX]
    int count                   # in `ready`
    int at                      # the one at work

# 0, or -1 with errno. The mailbox stands in the epoll, and loop_turn clears it.
cdef int loop_open(EventLoop *loop, Mailbox *mailbox) noexcept nogil
# Waits for descriptors and timers, no longer than so many milliseconds (-1: no limit), and has libunbound's functions run for them.
cdef void loop_turn(EventLoop *loop, Mailbox *mailbox, int most) noexcept nogil
# Once libunbound has nothing in it.
cdef void loop_close(EventLoop *loop) noexcept nogil
