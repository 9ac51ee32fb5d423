"""A worker's connection to the policy agent. The contract is in _agent.pxd."""
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from fastdns.api.memory cimport atomic_add32, list_append, list_container, list_first, list_init, list_remove
from fastdns.api.metrics cimport metric_add
from fastdns.api.network cimport EPOLLIN, MSG_DONTWAIT, MSG_NOSIGNAL, SOCK_CLOEXEC, SOCK_NONBLOCK, close, connect, recv, send, sockaddr, socket
from fastdns.api.query cimport Query, query_park, query_resume
from fastdns.api.random cimport hash_octets, hash_seed
from fastdns.api.reply cimport SECTION_AUTHORITY, Record
from fastdns.api.wire cimport CLASS_IN, TYPE_A, TYPE_AAAA, TYPE_HTTPS, TYPE_SVCB, load16, load32, store16, store32
from fastdns.api.worker cimport limit_enter, limit_freed, limit_leave
from fastdns.plugins.fqdn_policy._known cimport Subject, known_put, known_until
from fastdns.plugins.fqdn_policy._turns cimport (EXPIRY, turns_add, turns_init, turns_next, turns_remove, window_expired, window_extend,
                                                 window_init, window_open, window_taken)

cdef extern from "<sys/socket.h>" nogil:
    enum: AF_UNIX
    enum: SOCK_SEQPACKET

cdef enum:
    SECOND = 1000000000
    RETRY = 100000000           # ns between two attempts to connect
    RESERVE = SECOND            # ns: the walk's own deadline is later than ours
    TURN = 64                   # messages of the agent that are read in one turn
    INPUT = 1536                # octets of one
    KEY_IPV4HINT = 4            # RFC 9460 14.3.2
    KEY_IPV6HINT = 6
    ENTRY_MAX = 21              # octets of an address in a message


# ---- connections ----

cdef Link *agent_link(Agent *agent, Worker *worker) noexcept nogil:
    cdef Link *link = agent.links[worker.id]
    cdef uint32_t i
    if link != NULL:
        return link
    link = <Link *>calloc(1, sizeof(Link))
    if link == NULL:
        return NULL
    link.places = <Place *>calloc(agent.places, sizeof(Place))
    if link.places == NULL:
        free(link)
        return NULL
    for i in range(agent.places):
        link.places[i].next = i + 1
    turns_init(&link.turns)
    list_init(&link.sent)
    window_init(&link.window, agent.limit.most, agent.timeout)
    link.source.fd = -1
    link.worker = worker
    link.agent = agent
    link.tried = worker.now - RETRY
    agent.links[worker.id] = link
    return link


cdef bint link_connect(Link *link) noexcept nogil:
    cdef int fd
    if link.source.fd >= 0:
        return True
    if link.worker.now - link.tried < RETRY:
        return False
    link.tried = link.worker.now
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
    if fd < 0:
        return False
    link.source.fd = fd
    link.source.ready = on_ready
    link.source.data = link
    if connect(fd, <const sockaddr *>link.agent.address, link.agent.address_length) < 0 or link.worker.ops.watch(link.worker, &link.source, EPOLLIN) < 0:
        close(fd)
        link.source.fd = -1
        return False
    atomic_add32(&link.agent.connections, 1)
    return True


cdef void disconnect(Link *link) noexcept nogil:
    """What the agent knew it may know no more."""
    link.worker.ops.unwatch(link.worker, &link.source)
    close(link.source.fd)
    link.source.fd = -1
    memset(&link.known, 0, sizeof(Known))
    atomic_add32(&link.agent.connections, <uint32_t>-1)


cdef void link_close(Agent *agent, Worker *worker) noexcept nogil:
    cdef Link *link = agent.links[worker.id]
    if link == NULL:
        return
    if link.source.fd >= 0:
        disconnect(link)
    agent.links[worker.id] = NULL
    free(link.places)
    free(link)


cdef void lose(Link *link) noexcept nogil:
    """The connection has ended: nobody waits for it any longer."""
    cdef Place *place
    cdef uint32_t i
    if link.source.fd < 0:
        return
    disconnect(link)
    link.tried = link.worker.now
    metric_add(link.agent.lost_cell, link.worker.id, 1)
    place = oldest_sent(link)
    while place != NULL:
        leave_agent(link, place, OUTCOME_NONE)
        place = oldest_sent(link)
    window_init(&link.window, link.agent.limit.most, link.agent.timeout)
    for i in range(link.agent.places):
        if link.places[i].query != NULL:
            end(link, link.places[i].query, OUTCOME_LOST)


cdef void on_ready(Source *source, Worker *worker, uint32_t events) noexcept nogil:
    cdef Link *link = <Link *>source.data
    cdef uint8_t octets[INPUT]
    cdef ssize_t n
    cdef int _
    for _ in range(TURN):
        n = recv(source.fd, octets, INPUT, MSG_DONTWAIT)
        if n < 0 and errno == EINTR:
            continue
        if n < 0 and errno == EAGAIN:
            break
        if n <= 0 or not read_taken(link, octets, <uint32_t>n):
            lose(link)
            return
    send_next(link)


cdef bint read_taken(Link *link, const uint8_t *octets, uint32_t length) noexcept nogil:
    """The acknowledgements of one message. False: it is none of this version."""
    cdef uint32_t at = 0, place
    while at < length:
        if length - at < TAKEN_SIZE or octets[at] != VERSION or octets[at + 1] != MESSAGE_TAKEN:
            return False
        place = load32(octets + at + 8)
        if place < link.agent.places and link.places[place].sent and link.places[place].uses == load32(octets + at + 4):
            window_taken(&link.window, link.places[place].sent, link.worker.now)
            leave_agent(link, &link.places[place], OUTCOME_TAKEN)
        at += TAKEN_SIZE
    return True


# ---- queries that wait ----

cdef bint link_ask(Link *link, Query *q, int64_t deadline) noexcept nogil:
    cdef Agent *agent = link.agent
    cdef Work *work = work_of(agent, q)
    cdef uint32_t place
    if query_park(q, deadline + RESERVE) < 0 or not limit_enter(&agent.limit, q):
        return False
    expire(link)
    place = link.free
    if place < agent.places:
        work.place = place
        if link.turns.networks or not window_open(&link.window, link.worker.now):
            turns_add(&link.turns, &link.places[place].turn, &q.client)
            begin_waiting(link, q, deadline)
            send_next(link)
            return True
        if send_take(link, &link.places[place]):
            begin_waiting(link, q, deadline)
            return True
    limit_leave(&agent.limit, link.worker.id)
    limit_freed(&agent.limit)
    return False


cdef void begin_waiting(Link *link, Query *q, int64_t deadline) noexcept nogil:
    """The query has work.place, the first of the free ones, from now on."""
    cdef Work *work = work_of(link.agent, q)
    cdef Place *place = &link.places[work.place]
    link.free = place.next
    place.query = q
    work.asked = link.worker.now
    work.outcome = OUTCOME_NONE
    memset(&work.timer, 0, sizeof(Timer))
    work.timer.fire = on_time_up
    work.timer.data = link
    link.worker.ops.timer_start(link.worker, &work.timer, deadline)


cdef bint send_take(Link *link, Place *place) noexcept nogil:
    """Sends link.message under an id of this place, which the agent has afterwards."""
    place.uses += 1
    link.message[1] = MESSAGE_TAKE
    store32(link.message + 4, place.uses)
    store32(link.message + 8, <uint32_t>(place - link.places))
    if not send_message(link):
        return False
    place.sent = link.worker.now
    list_append(&link.sent, &place.order)
    link.window.outstanding += 1
    return True


cdef void send_next(Link *link) noexcept nogil:
    """Sends the messages whose turn it is, as many as the window takes. No query is resumed."""
    cdef Place *place
    while link.turns.networks and window_open(&link.window, link.worker.now):
        place = <Place *>turns_next(&link.turns)
        link_write(link, place.query)
        if not send_take(link, place):
            # It waits until the agent takes more, or its time is up.
            turns_add(&link.turns, &place.turn, &place.query.client)
            return


cdef void leave_agent(Link *link, Place *place, Outcome outcome) noexcept nogil:
    """The agent has a message no more. OUTCOME_NONE: its query, if there still is one, goes on waiting for its time."""
    cdef Query *q = place.query
    list_remove(&place.order)
    place.sent = 0
    if q == NULL:
        free_place(link, place)
    elif outcome != OUTCOME_NONE:
        if outcome == OUTCOME_TAKEN:
            link_learn(link, q)
        end(link, q, outcome)


cdef void expire(Link *link) noexcept nogil:
    """Messages that the agent does not acknowledge make room for others."""
    cdef Place *place = oldest_sent(link)
    while place != NULL and link.worker.now - place.sent > EXPIRY:
        window_expired(&link.window, link.worker.now)
        leave_agent(link, place, OUTCOME_NONE)
        place = oldest_sent(link)


cdef inline Place *oldest_sent(Link *link) noexcept nogil:
    return <Place *>list_container(list_first(&link.sent), <size_t>&(<Place *>NULL).order)


cdef inline void free_place(Link *link, Place *place) noexcept nogil:
    place.next = link.free
    link.free = <uint32_t>(place - link.places)


cdef bint link_may_tell(Link *link) noexcept nogil:
    return window_extend(&link.window, link.worker.now)


cdef bint link_tell(Link *link) noexcept nogil:
    link.message[1] = MESSAGE_EXTEND
    memset(link.message + 4, 0, 8)
    return send_message(link)


cdef bint send_message(Link *link) noexcept nogil:
    cdef ssize_t n = send(link.source.fd, link.message, link.length, MSG_DONTWAIT | MSG_NOSIGNAL)
    # Where the connection has ended epoll says so in this turn or the next one: queries that wait are not resumed inside of another one's hook.
    return n == <ssize_t>link.length


cdef void on_time_up(Timer *timer, Worker *worker) noexcept nogil:
    cdef Link *link = <Link *>timer.data
    cdef Work *work = <Work *>timer        # its first member
    end(link, link.places[work.place].query, OUTCOME_LATE)


cdef void end(Link *link, Query *q, Outcome outcome) noexcept nogil:
    work_of(link.agent, q).outcome = <uint8_t>outcome
    link_forget(link, q)
    query_resume(q)


cdef void link_forget(Link *link, Query *q) noexcept nogil:
    cdef Work *work = work_of(link.agent, q)
    cdef Place *place = &link.places[work.place]
    if place.query != q:
        return
    place.query = NULL
    turns_remove(&link.turns, &place.turn)
    if not place.sent:
        free_place(link, place)
    link.worker.ops.timer_stop(link.worker, &work.timer)
    limit_leave(&link.agent.limit, link.worker.id)
    limit_freed(&link.agent.limit)


# ---- the addresses of a reply ----

cdef struct Walk:               # over them
    const Record *record        # the one at work, or that follows
    const Record *end
    const uint8_t *hints        # that are left of it
    const uint8_t *hints_end
    uint32_t size               # octets of a hint
    const uint8_t *parameters   # of an HTTPS or SVCB record, that are left
    const uint8_t *parameters_end


cdef const uint8_t *next_address(Walk *walk, uint32_t *length, uint32_t *ttl) noexcept nogil:
    """The next one and its octets, of A and AAAA records and of hints in HTTPS and SVCB records (RFC 9460 7.3), without authority; NULL at the end."""
    cdef const Record *record
    while True:
        if walk.hints != NULL and walk.hints_end - walk.hints >= walk.size:
            walk.hints += walk.size
            length[0] = walk.size
            ttl[0] = walk.record.ttl
            return walk.hints - walk.size
        walk.hints = NULL
        if walk.parameters != NULL and next_hints(walk):
            continue
        if walk.parameters != NULL:
            walk.parameters = NULL
            walk.record += 1
        if walk.record == walk.end:
            return NULL
        record = walk.record
        if record.klass == CLASS_IN and record.section != SECTION_AUTHORITY:
            if record.type == TYPE_HTTPS or record.type == TYPE_SVCB:
                begin_parameters(walk)
                continue
            if record.type == TYPE_A and record.rdlength == 4 or record.type == TYPE_AAAA and record.rdlength == 16:
                walk.record += 1
                length[0] = record.rdlength
                ttl[0] = record.ttl
                return record.rdata
        walk.record += 1


cdef void begin_parameters(Walk *walk) noexcept nogil:
    """Behind priority and target. Rdata in a reply is valid, but nothing here relies on it."""
    cdef const uint8_t *at = walk.record.rdata + 2
    cdef const uint8_t *end = walk.record.rdata + walk.record.rdlength
    while at < end and at[0]:
        at += 1 + at[0]
    walk.parameters = at + 1 if at < end else end
    walk.parameters_end = end


cdef bint next_hints(Walk *walk) noexcept nogil:
    cdef const uint8_t *at = walk.parameters
    cdef uint16_t key, size
    while walk.parameters_end - at >= 4:
        key = load16(at)
        size = load16(at + 2)
        at += 4
        if size > walk.parameters_end - at:
            return False
        walk.parameters = at + size
        if key == KEY_IPV4HINT or key == KEY_IPV6HINT:
            walk.hints = at
            walk.hints_end = at + size
            walk.size = 4 if key == KEY_IPV4HINT else 16
            return True
        at = walk.parameters
    return False


cdef void begin(const Query *q, Walk *walk, Subject *subject) noexcept nogil:
    memset(walk, 0, sizeof(Walk))
    walk.record = q.reply.records
    walk.end = q.reply.records + q.reply.count
    memset(subject, 0, sizeof(Subject))
    memcpy(subject.client, q.client.octets, 4 if q.client.family == 4 else 16)
    subject.families[0] = q.client.family
    subject.name = hash_octets(q.first_name.lower, q.first_name.length, hash_seed)


cdef Found link_write(Link *link, const Query *q) noexcept nogil:
    cdef uint8_t *at = link.message + HEAD
    cdef const uint8_t *address
    cdef Subject subject
    cdef Walk walk
    cdef Found found
    cdef uint32_t length, ttl
    cdef int64_t until, now = q.worker.now
    found.count = 0
    found.novelty = NOVELTY_NONE
    begin(q, &walk, &subject)
    memcpy(at, q.first_name.lower, q.first_name.length)
    at += q.first_name.length
    address = next_address(&walk, &length, &ttl)
    while address != NULL and at + ENTRY_MAX <= link.message + MESSAGE_SIZE:
        until = known_until(&link.known, &subject, address, length)
        if until <= now:
            found.novelty = NOVELTY_NEW
        elif now + <int64_t>ttl * SECOND > until + SECOND and found.novelty == NOVELTY_NONE:
            found.novelty = NOVELTY_LONGER
        store32(at, ttl)
        at[4] = 4 if length == 4 else 6
        memcpy(at + 5, address, length)
        at += 5 + length
        found.count += 1
        address = next_address(&walk, &length, &ttl)
    link.length = <uint32_t>(at - link.message)
    memset(link.message, 0, HEAD)
    link.message[0] = VERSION
    store16(link.message + 2, found.count)
    link.message[12] = q.client.family
    link.message[14] = q.first_name.length
    memcpy(link.message + 16, subject.client, 16)
    return found


cdef void link_learn(Link *link, const Query *q) noexcept nogil:
    cdef const uint8_t *address
    cdef Subject subject
    cdef Walk walk
    cdef uint32_t length, ttl
    begin(q, &walk, &subject)
    address = next_address(&walk, &length, &ttl)
    while address != NULL:
        known_put(&link.known, &subject, address, length, q.worker.now + <int64_t>ttl * SECOND)
        address = next_address(&walk, &length, &ttl)
