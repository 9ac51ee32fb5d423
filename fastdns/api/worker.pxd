"""The worker that runs a hook, and its services: timers, descriptors in its epoll, messages from other threads, work at the end of a batch.

A worker's structs are used on its own thread only. Any other thread posts a Mail to it (`worker.ops.post`), or sends the query to a control
thread and back through an offload queue (`OffloadQueue`).
"""
# A list that any thread pushes to and one takes whole.
from fastdns.system.mailbox cimport (Mailbox, MailboxItem, mailbox_begin_sleep, mailbox_clear, mailbox_end_sleep, mailbox_interrupt, mailbox_open,
                                     mailbox_post, mailbox_push, mailbox_take)
from fastdns.walk.query cimport WORKERS_MAX, Flush, Mail, Source, Timer, Worker, WorkerOps, worker_flush
# All workers that run, by id.
from fastdns._mux cimport mux_worker_count, mux_workers

# Offload queues: parked queries that a control thread works on.
from fastdns.engine.offload cimport (OffloadQueue, OffloadRequest, offload_abandon, offload_next, offload_open, offload_return,
                                     offload_send, offload_wait, offload_wanted)

# How many queries may wait for something outside; of whom too many wait, one is evicted.
from fastdns.walk.limit cimport WaitLimit, limit_enter, limit_freed, limit_leave

# For a thread of the plugin's own: its timers (a worker's are in `worker.ops`), and its name.
from fastdns.engine.timer cimport Wheel, wheel_init, wheel_start, wheel_stop, wheel_timeout, wheel_turn
from fastdns.system.thread cimport thread_name

# How long UDP queries were in their sockets, and dropping those that are too old.
from fastdns.engine.io.aging cimport aging_forget, aging_want

# UDP replies that the kernel does not take at once: kept, and given up after so many.
from fastdns.engine.io.backlog cimport udp_hold
from fastdns.engine.io.datagram cimport BACKLOG_MAX, UdpSocket
