"""NOTIFY for many addresses. The contract is in _notifies.pyi."""
from libc.errno cimport EAGAIN, EINTR, ETIMEDOUT, errno
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset
from fastdns.api.names cimport NAME_MAX
from fastdns.api.network cimport (MSG_DONTWAIT, Address, address_from_socket, address_to_socket, iovec, mmsghdr, recvmmsg, sendmmsg,
                                  sockaddr_in6, socket_clock)
from fastdns.api.random cimport Random, random_init, random_next
from fastdns.api.wire cimport CLASS_IN, HEADER_SIZE, TYPE_SOA, load16, store16

cdef extern from * nogil:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <errno.h>
    #include <linux/errqueue.h>
    #include <netinet/in.h>
    #include <string.h>
    #include <sys/socket.h>
    static void notifies_want_errors(int fd) {
        int one = 1;
        setsockopt(fd, IPPROTO_IP, IP_RECVERR, &one, sizeof one);
        setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &one, sizeof one);
    }
    /* The next error that ICMP has told of: whom it was sent to, and errno; 0: there is none. */
    static int notifies_error(int fd, struct sockaddr_in6 *peer) {
        char control[512], octets[64];
        struct iovec part = {octets, sizeof octets};
        struct msghdr message = {.msg_name = peer, .msg_namelen = sizeof *peer, .msg_iov = &part, .msg_iovlen = 1,
                                 .msg_control = control, .msg_controllen = sizeof control};
        if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
            return 0;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
            if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) || (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR)) {
                struct sock_extended_err error;
                memcpy(&error, CMSG_DATA(c), sizeof error);
                return error.ee_errno ? (int)error.ee_errno : EIO;
            }
        return EIO;
    }
    """
    void notifies_want_errors(int fd) noexcept
    int notifies_error(int fd, sockaddr_in6 *peer) noexcept

cdef enum:
    TRIES_MAX = 3
    PATIENCE_SECONDS = 2
    SECOND = 1000000000             # ns
    BATCH = 64                      # messages of a system call
    FRESH_MAX = 256                 # sent within FRESH without an answer: as many fit into the socket's buffer
    FRESH = 10000000                # ns
    REPLY_OCTETS = 512
    FLAGS = 0x2400                  # NOTIFY, AA (RFC 1996 3.7)

TRIES = TRIES_MAX
PATIENCE = float(PATIENCE_SECONDS)

cdef enum State:
    ENDED
    DUE                             # to be sent
    WAITING                         # for an answer, until `deadline`

cdef struct Target:
    Address address                 # sorted by octets and port
    uint32_t number                 # the caller's
    uint16_t id
    uint8_t state
    uint8_t again                   # the zone has changed since it was sent
    uint8_t tries
    uint8_t failed                  # and not yet reported, with these two:
    int32_t reason                  # errno
    uint8_t rcode
    int64_t deadline                # ns

cdef struct Messages:
    mmsghdr headers[BATCH]
    iovec parts[BATCH]
    sockaddr_in6 peers[BATCH]
    uint8_t octets[BATCH][REPLY_OCTETS]
    Target *targets[BATCH]

cdef struct Sending:
    int fd
    Target *targets
    uint32_t count
    uint32_t fresh                  # sent and not answered since `sent`
    int64_t sent                    # ns: the last batch
    uint32_t length                 # of message
    uint8_t message[HEADER_SIZE + NAME_MAX + 4]
    Random random
    Messages messages


cdef inline int compare(const Address *a, const Address *b) noexcept nogil:
    cdef int order = memcmp(a.octets, b.octets, 4 if a.family == 4 else 16)
    return order if order else <int>a.port - <int>b.port


cdef Target *find(Sending *self, const sockaddr_in6 *peer) noexcept nogil:
    cdef uint32_t low = 0, high = self.count, middle
    cdef Address address
    memset(&address, 0, sizeof(Address))
    address.family = self.targets[0].address.family
    address_from_socket(&address, peer)
    if address.family != self.targets[0].address.family:
        return NULL
    while low < high:
        middle = (low + high) // 2
        if compare(&self.targets[middle].address, &address) < 0:
            low = middle + 1
        else:
            high = middle
    return &self.targets[low] if low < self.count and compare(&self.targets[low].address, &address) == 0 else NULL


# ---- what becomes of a NOTIFY ----

cdef void end(Target *target) noexcept nogil:
    """Answered, or given up. What has changed since is told now."""
    target.state = DUE if target.again else ENDED
    target.again = 0
    target.tries = 0


cdef void fail(Target *target, int reason, uint8_t rcode) noexcept nogil:
    if target.tries < TRIES_MAX:
        target.state = DUE
        return
    target.failed = 1
    target.reason = reason
    target.rcode = rcode
    end(target)


cdef void take(Sending *self, Target *target, const uint8_t *reply, uint32_t length) noexcept nogil:
    """An answer, if it is one: NOTIFY has the id, and the question if there is any (RFC 1996 4.7)."""
    if target.state != WAITING or length < HEADER_SIZE or load16(reply) != target.id or reply[2] & 0xF8 != 0xA0:
        return
    if load16(reply + 4) and (length < self.length or not same_question(reply + HEADER_SIZE, self.message + HEADER_SIZE, self.length - HEADER_SIZE)):
        return
    self.fresh -= self.fresh != 0
    if reply[3] & 15:
        fail(target, 0, reply[3] & 15)
    else:
        end(target)


cdef bint same_question(const uint8_t *a, const uint8_t *b, uint32_t length) noexcept nogil:
    cdef uint32_t i
    for i in range(length):
        if a[i] != b[i] and not ((a[i] ^ b[i]) == 32 and 97 <= a[i] | 32 <= 122):
            return False
    return True


# ---- the socket ----

cdef void receive(Sending *self) noexcept nogil:
    cdef Messages *messages = &self.messages
    cdef Target *target
    cdef sockaddr_in6 peer
    cdef int n = BATCH, i, reason
    while n == BATCH:
        for i in range(BATCH):
            prepare(messages, i, REPLY_OCTETS, sizeof(sockaddr_in6))
        n = recvmmsg(self.fd, messages.headers, BATCH, MSG_DONTWAIT, NULL)
        for i in range(n):
            target = find(self, &messages.peers[i])
            if target != NULL:
                take(self, target, messages.octets[i], messages.headers[i].msg_len)
        if n < 0 and errno == EINTR:
            n = BATCH
    while True:
        memset(&peer, 0, sizeof(peer))
        reason = notifies_error(self.fd, &peer)
        if reason == 0:
            return
        target = find(self, &peer)
        if target != NULL and target.state == WAITING:
            fail(target, reason, 0)


cdef inline void prepare(Messages *messages, int i, uint32_t octets, uint32_t name) noexcept nogil:
    memset(&messages.headers[i], 0, sizeof(mmsghdr))
    messages.parts[i].iov_base = messages.octets[i]
    messages.parts[i].iov_len = octets
    messages.headers[i].msg_hdr.msg_name = &messages.peers[i]
    messages.headers[i].msg_hdr.msg_namelen = name
    messages.headers[i].msg_hdr.msg_iov = &messages.parts[i]
    messages.headers[i].msg_hdr.msg_iovlen = 1


cdef bint send(Sending *self, uint32_t count, int64_t now) noexcept nogil:
    """The messages of so many targets. False: the socket takes no more now."""
    cdef Messages *messages = &self.messages
    cdef Target *target
    cdef uint32_t i, sent = 0
    cdef int n, refused = 0
    for i in range(count):
        target = messages.targets[i]
        memcpy(messages.octets[i], self.message, self.length)
        target.id = <uint16_t>random_next(&self.random)
        store16(messages.octets[i], target.id)
        prepare(messages, <int>i, self.length, address_to_socket(&target.address, target.address.family, &messages.peers[i]))
    while sent < count:
        n = sendmmsg(self.fd, messages.headers + sent, count - sent, MSG_DONTWAIT)
        if n <= 0:
            if errno == EAGAIN:
                return False
            if refused == 0:            # that may be the error of an earlier one
                refused = 1
                continue
            begin_try(messages.targets[sent], now)
            fail(messages.targets[sent], errno, 0)
            n = 1
        else:
            for i in range(<uint32_t>n):
                begin_try(messages.targets[sent + i], now)
            self.fresh += <uint32_t>n
        refused = 0
        sent += <uint32_t>n
    self.sent = now
    return True


cdef inline void begin_try(Target *target, int64_t now) noexcept nogil:
    target.tries += 1
    target.state = WAITING
    target.again = 0
    target.deadline = now + <int64_t>target.tries * PATIENCE_SECONDS * SECOND


cdef int64_t step(Sending *self) noexcept nogil:
    """ns until the next one; -1: nothing is under way."""
    cdef int64_t now = socket_clock(), wait = -1
    cdef Target *target
    cdef uint32_t i, count = 0
    cdef bint full = False
    receive(self)
    if now - self.sent > FRESH:
        self.fresh = 0
    for i in range(self.count):
        target = &self.targets[i]
        if target.state == WAITING and target.deadline <= now:
            fail(target, ETIMEDOUT, 0)
        if target.state == DUE and not full:
            self.messages.targets[count] = target
            count += 1
            if count == BATCH:
                full = not send(self, count, now) or self.fresh >= FRESH_MAX
                count = 0
    if count:
        send(self, count, now)
    for i in range(self.count):
        target = &self.targets[i]
        if target.state == DUE:
            return FRESH
        if target.state == WAITING and (wait < 0 or target.deadline - now < wait):
            wait = max(0, target.deadline - now)
    return wait


# ---- Python ----

cdef class Notifies:
    cdef Sending *sending

    def __cinit__(self, int fd, bytes zone not None, addresses):
        cdef Sending *sending = <Sending *>calloc(1, sizeof(Sending))
        cdef Target *target
        cdef uint8_t *question
        cdef bytes octets
        self.sending = sending
        if sending == NULL:
            raise MemoryError
        if not addresses or not 0 < len(zone) <= NAME_MAX:
            raise ValueError
        sending.targets = <Target *>calloc(len(addresses), sizeof(Target))
        if sending.targets == NULL:
            raise MemoryError
        for number, (octets, port, scope) in sorted(enumerate(addresses), key=lambda one: one[1]):
            if len(octets) not in (4, 16) or len(octets) != len(addresses[0][0]):
                raise ValueError
            target = &sending.targets[sending.count]
            target.address.family = 4 if len(octets) == 4 else 6
            memcpy(target.address.octets, <const uint8_t *>octets, len(octets))
            target.address.port = port
            target.address.scope = scope
            target.number = number
            sending.count += 1
        sending.fd = fd
        store16(sending.message + 2, FLAGS)
        store16(sending.message + 4, 1)
        question = sending.message + HEADER_SIZE
        memcpy(question, <const uint8_t *>zone, len(zone))
        store16(question + len(zone), TYPE_SOA)
        store16(question + len(zone) + 2, CLASS_IN)
        sending.length = HEADER_SIZE + <uint32_t>len(zone) + 4
        random_init(&sending.random)
        notifies_want_errors(fd)

    def __dealloc__(self):
        if self.sending != NULL:
            free(self.sending.targets)
        free(self.sending)

    def begin(self):
        cdef uint32_t i
        cdef Target *target
        for i in range(self.sending.count):
            target = &self.sending.targets[i]
            target.again = target.state == WAITING
            if target.state == ENDED:
                target.state = DUE
                target.tries = 0

    def step(self):
        cdef int64_t wait
        with nogil:
            wait = step(self.sending)
        return wait / 1e9 if wait >= 0 else None

    def failures(self):
        cdef uint32_t i
        cdef Target *target
        found = []
        for i in range(self.sending.count):
            target = &self.sending.targets[i]
            if target.failed:
                target.failed = 0
                found.append((target.number, target.reason, target.rcode))
        return found
