"""Queries through an engine in process; see _replay.pyi.

The worker of an engine that was not started is driven by hand: a batch of messages is laid where recvmmsg would have put it and taken up, and the replies
are read where sendmmsg would have taken them from. What runs in between is all that a worker does in user space for a query, but for its system calls.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from libc.string cimport memcpy, memset
from fastdns.system.mailbox cimport MailboxItem, mailbox_begin_sleep, mailbox_end_sleep, mailbox_take
from fastdns.system.epoch cimport epoch_offline, epoch_online
from fastdns.engine.engine cimport Engine
from fastdns.engine.listener cimport Listener
from fastdns.engine.loop cimport Loop, transport_count, transports
from fastdns.walk.query cimport Flush, Mail, Source
from fastdns.system.socket cimport AF_INET6, epoll_event, epoll_wait, htons, sockaddr_in6, socket_clock
from fastdns.engine.timer cimport wheel_init, wheel_turn
from fastdns.engine.io.datagram cimport BATCH, CONTROL_SIZE, RECEIVE_SIZE, UdpBatch, UdpSocket
from fastdns.engine.io.udp cimport udp_receive, udp_transport
from fastdns.system.hash cimport hash_seed

cdef extern from *:
    """
    #include <netinet/in.h>
    #include <sys/socket.h>

    /* The two functions that callgrind is told of (bench/instructions.py): it counts what runs inside of the first, and writes down the sum before
       the second. Neither may be inlined or merged, and no plainer way to name a region exists in a program without the header of valgrind. */
    static __attribute__((noinline)) void replay_counted(void (*run)(void *), void *replay) {
        run(replay);
        __asm__ volatile("" ::: "memory");
    }
    static __attribute__((noinline)) void replay_written_down(void) {
        __asm__ volatile("" ::: "memory");
    }
    /* PKTINFO as the kernel gives it on a socket that is bound to all addresses. */
    static size_t replay_destination(struct msghdr *message, const uint8_t *octets) {
        struct cmsghdr *c = CMSG_FIRSTHDR(message);
        struct in6_pktinfo *info = (struct in6_pktinfo *)CMSG_DATA(c);
        c->cmsg_level = IPPROTO_IPV6;
        c->cmsg_type = IPV6_PKTINFO;
        c->cmsg_len = CMSG_LEN(sizeof *info);
        memcpy(&info->ipi6_addr, octets, 16);
        info->ipi6_ifindex = 1;
        return CMSG_SPACE(sizeof *info);
    }
    static const char *replay_compiler(void) {
    #if defined(__clang__)
        return "clang " __clang_version__;
    #else
        return "gcc " __VERSION__;
    #endif
    }
    """
    void replay_counted(void (*run)(void *) noexcept nogil, void *replay) noexcept nogil
    void replay_written_down() noexcept nogil
    size_t replay_destination(void *message, const uint8_t *octets) noexcept nogil
    const char *replay_compiler() noexcept nogil

cdef enum:
    EVENTS_MAX = 256
    AHEAD = 3600                    # seconds: durations must not depend on the clock, and negative ones count as none

cdef struct Turn:                   # one call of the functions that count
    Loop *loop
    UdpSocket *sock
    MailboxItem *mail               # of other threads
    int count                       # messages of a batch
    epoll_event events[EVENTS_MAX]

cdef uint8_t[16] CLIENT = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 127, 0, 0, 1]


def compiler() -> str:
    """Which compiler has made this module, and with it the others: "gcc 12.2.0"."""
    return replay_compiler().decode().partition(" (")[0].strip()


def fix_cluster_hash(uint64_t seed) -> None:
    hash_seed[0] = seed
    hash_seed[1] = seed * 0x9E3779B97F4A7C15ULL | 1


def write_down() -> None:
    replay_written_down()


cdef void run_flushes(Loop *loop) noexcept nogil:
    cdef Flush *flush
    while loop.base.flushes != NULL:
        flush = loop.base.flushes
        loop.base.flushes = flush.next
        flush.queued = 0
        flush.run(flush, &loop.base)


cdef void receive(void *turn) noexcept nogil:
    udp_receive((<Turn *>turn).sock, &(<Turn *>turn).loop.base, (<Turn *>turn).count)
    run_flushes((<Turn *>turn).loop)


cdef void run_ready(void *turn) noexcept nogil:
    cdef Loop *loop = (<Turn *>turn).loop
    cdef Source *source
    cdef MailboxItem *item = (<Turn *>turn).mail
    cdef MailboxItem *following
    cdef int i
    for i in range((<Turn *>turn).count):
        source = <Source *>(<Turn *>turn).events[i].data.ptr
        source.ready(source, &loop.base, (<Turn *>turn).events[i].events)
    while item != NULL:
        following = item.next
        (<Mail *>item).run(<Mail *>item, &loop.base)
        item = following
    wheel_turn(&loop.wheel, &loop.base, loop.base.now)
    run_flushes(loop)


cdef class Replay:
    cdef Engine engine
    cdef Listener listener
    cdef Loop *loop
    cdef UdpBatch *batch
    cdef Turn turn
    cdef public bint counting
    cdef public int64_t step            # ns between two batches

    def __init__(self, Engine engine not None, Listener listener not None, uint64_t seed=1):
        cdef uint32_t i
        self.engine = engine
        self.listener = listener
        self.loop = engine.threads.loops[0]
        for i in range(transport_count):
            if transports[i] == &udp_transport:
                self.batch = <UdpBatch *>self.loop.transports[i]
                self.turn.sock = <UdpSocket *>listener.rows[i][0]
        self.loop.base.now = socket_clock() + <int64_t>AHEAD * 1000000000
        wheel_init(&self.loop.wheel, self.loop.base.now)
        for i in range(8):
            self.loop.base.random.key[i] = <uint32_t>(seed * (i + 1))
        self.loop.base.random.counter = 0
        self.loop.base.random.used = 16
        # As Kubernetes has it: bound to all addresses of both families.
        self.turn.sock.wildcard = 1
        self.turn.sock.family = 6

    def serve(self, list messages not None) -> list:
        cdef UdpBatch *batch = self.batch
        cdef sockaddr_in6 *peer
        cdef bytes message
        cdef int i
        if not 0 < len(messages) <= BATCH:
            raise ValueError(f"a batch has 1 to {BATCH} messages, not {len(messages)}")
        for i, message in enumerate(messages):
            if len(message) > RECEIVE_SIZE:
                raise ValueError(f"a message of {len(message)} octets")
            memcpy(batch.received_iov[i].iov_base, <const uint8_t *>message, len(message))
            batch.received[i].msg_len = <unsigned int>len(message)
            peer = &batch.peers[i]
            memset(peer, 0, sizeof(sockaddr_in6))
            peer.sin6_family = AF_INET6
            peer.sin6_port = htons(<uint16_t>(40000 + i))
            memcpy(peer.sin6_addr.s6_addr, CLIENT, 16)
            batch.received[i].msg_hdr.msg_controllen = CONTROL_SIZE
            batch.received[i].msg_hdr.msg_controllen = replay_destination(&batch.received[i].msg_hdr, CLIENT)
        self.turn.count = <int>len(messages)
        self.loop.base.now += self.step
        self._run(receive)
        return self._replies()

    def wake(self, double seconds=0) -> list:
        cdef int timeout = <int>(seconds * 1000)
        with nogil:                 # as run_worker of engine/loop sleeps
            if not mailbox_begin_sleep(&self.loop.mailbox):
                timeout = 0
            self.turn.count = epoll_wait(self.loop.epoll, self.turn.events, EVENTS_MAX, timeout)
            mailbox_end_sleep(&self.loop.mailbox)
        self.turn.mail = mailbox_take(&self.loop.mailbox)
        if self.turn.count > 0 or self.turn.mail != NULL:
            self._run(run_ready)
        return self._replies()

    cdef void _run(self, void (*run)(void *) noexcept nogil):
        self.turn.loop = self.loop
        self.loop.base.set = self.engine.published
        with nogil:
            epoch_online(self.loop.base.id)
            if self.counting:
                replay_counted(run, &self.turn)
            else:
                run(&self.turn)
            epoch_offline(self.loop.base.id)

    cdef list _replies(self):
        """What would leave now, in order."""
        cdef UdpBatch *batch = self.batch
        cdef uint32_t i
        found = [(<const char *>batch.sent_iov[i].iov_base)[: batch.sent_iov[i].iov_len] for i in range(batch.sent_count)]
        batch.sent_count = 0
        batch.sent_used = 0
        return found
