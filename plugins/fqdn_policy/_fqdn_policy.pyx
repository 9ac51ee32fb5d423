"""The handler of *fqdn_policy*: a reply with addresses waits in its `reply` hook until the policy agent has taken them.

The hook is above cache and all that answers, so cached replies wait, too, and what is sent is what the agent was told.
"""
import os
import socket
import sys

from libc.stdint cimport uint8_t, uint32_t, uint64_t, int64_t
from libc.stdlib cimport calloc, free
from fastdns.api.memory cimport atomic_load32
from fastdns.api.metrics cimport Metric, label_count, metric_add, metric_observe
from fastdns.api.names cimport ZoneList, Zones, zones_hold
from fastdns.api.query cimport PARKED, TRANSPORT_NONE, UP, Handler, NativeHandler, Query, Verdict, handler_init, query_fail
from fastdns.api.reply cimport reply_clear
from fastdns.api.wire cimport RCODE_NOERROR, RCODE_SERVFAIL
from fastdns.api.worker cimport Worker
from fastdns.plugins.fqdn_policy._agent cimport (NOVELTY_NEW, NOVELTY_NONE, OUTCOME_LATE, OUTCOME_TAKEN, Agent, Found, Link, Work, agent_link, link_ask,
                                                 link_close, link_connect, link_forget, link_learn, link_may_tell, link_tell, link_write, work_of)

cdef enum Result:               # of a reply with addresses
    RESULT_KNOWN
    RESULT_TAKEN
    RESULT_LATE
    RESULT_UNAVAILABLE
    RESULTS

cdef struct Cells:              # metric cells of one server
    uint32_t replies[RESULTS]
    uint32_t wait

cdef struct Policy:
    Agent agent                 # first
    const Zones *zones          # borrowed from the handler
    uint8_t closed
    Cells *cells                # by server label


cdef Verdict on_reply(Handler *self, Query *q) noexcept nogil:
    cdef Policy *policy = <Policy *>self.state
    cdef Link *link
    cdef Found found
    if (not q.reply.written or q.reply.rcode != RCODE_NOERROR or q.reply.count == 0 or q.parent != NULL or q.transport == TRANSPORT_NONE
            or not zones_hold(policy.zones, &q.first_name)):
        return UP
    link = agent_link(&policy.agent, q.worker)
    if link == NULL:
        return finish(policy, q, RESULT_UNAVAILABLE)
    found = link_write(link, q)
    if found.count == 0:
        return UP
    if not link_connect(link):
        return finish(policy, q, RESULT_UNAVAILABLE)
    # Where too many are to be told without waiting this one waits, in the client's turn.
    if found.novelty == NOVELTY_NONE or (found.novelty != NOVELTY_NEW and link_may_tell(link)):
        if found.novelty != NOVELTY_NONE and link_tell(link):
            link_learn(link, q)
        return finish(policy, q, RESULT_KNOWN)
    if not link_ask(link, q, q.worker.now + policy.agent.timeout):
        return finish(policy, q, RESULT_UNAVAILABLE)
    return PARKED


cdef Verdict on_resume(Handler *self, Query *q) noexcept nogil:
    cdef Policy *policy = <Policy *>self.state
    cdef const Work *work = work_of(&policy.agent, q)
    if work.outcome == OUTCOME_TAKEN:
        metric_observe(&WAIT.buckets, policy.cells[q.server.label].wait, q.worker.id, <uint64_t>(q.worker.now - work.asked))
        return finish(policy, q, RESULT_TAKEN)
    return finish(policy, q, RESULT_LATE if work.outcome == OUTCOME_LATE else RESULT_UNAVAILABLE)


cdef Verdict finish(const Policy *policy, Query *q, int result) noexcept nogil:
    metric_add(policy.cells[q.server.label].replies[result], q.worker.id, 1)
    if policy.closed and (result == RESULT_LATE or result == RESULT_UNAVAILABLE):
        reply_clear(&q.reply)
        query_fail(q, RCODE_SERVFAIL, b"the policy agent was late" if result == RESULT_LATE else b"the policy agent was not there")
    return UP


cdef void on_abandon(Handler *self, Query *q) noexcept nogil:
    cdef Policy *policy = <Policy *>self.state
    link_forget(policy.agent.links[q.worker.id], q)


cdef bint on_detach(Handler *self, Worker *worker) noexcept nogil:
    link_close(&(<Policy *>self.state).agent, worker)
    return True


# ---- set-up ----

cdef tuple RESULT_NAMES = ("known", "taken", "late", "unavailable")
cdef Metric REPLIES = Metric("fastdns_fqdn_policy_replies_total", "Counter of replies with addresses, by what became of them at the policy agent.", "counter",
                             ("server", "result"))
cdef Metric WAIT = Metric("fastdns_fqdn_policy_wait_seconds", "How long replies waited until the policy agent had taken their addresses.", "histogram",
                          ("server",), (.00005, .0001, .0002, .0005, .001, .002, .005, .01, .02, .05), 1e9)
cdef Metric CONNECTIONS = Metric("fastdns_fqdn_policy_connections", "Workers that are connected to the policy agent.", "gauge", ("socket",))
cdef Metric WAITING = Metric("fastdns_fqdn_policy_waiting", "Replies that wait for the policy agent.", "gauge", ("socket",))
cdef Metric LOST = Metric("fastdns_fqdn_policy_lost_connections_total", "Counter of connections that the policy agent has ended.", "counter", ("socket",))


cdef class PolicyHandler(NativeHandler):
    cdef Policy *policy
    cdef ZoneList zones
    cdef bytes address          # sockaddr_un
    cdef str path

    def __cinit__(self, *args, **kwargs):
        handler_init(self)
        self.handler.reply = on_reply
        self.handler.resume = on_resume
        self.handler.abandon = on_abandon
        self.handler.detach = on_detach
        self.handler.scratch_size = sizeof(Work)

    def __init__(self, str path, zones, int64_t timeout, bint closed, uint32_t waiting):
        NativeHandler.__init__(self, "fqdn_policy")
        self.policy = <Policy *>calloc(1, sizeof(Policy))
        if self.policy == NULL:
            raise MemoryError
        self.path = path
        self.zones = ZoneList(zones)
        self.address = int(socket.AF_UNIX).to_bytes(2, sys.byteorder) + os.fsencode(path) + b"\0"
        self.policy.zones = &self.zones.zones
        self.policy.agent.timeout = timeout
        self.policy.closed = closed
        self.policy.agent.handler = &self.handler
        self.policy.agent.address = self.address
        self.policy.agent.address_length = <uint32_t>len(self.address)
        self.policy.agent.limit.most = waiting
        self.policy.agent.places = 3 * waiting + 32
        self.policy.agent.lost_cell = LOST.cell((path,), True)
        self.handler.state = self.policy

    def __dealloc__(self):
        if self.policy != NULL:
            free(self.policy.cells)
            free(self.policy)

    cpdef attach(self, list servers, str view):
        cdef uint32_t count = label_count(servers)
        cdef Cells *cells
        free(self.policy.cells)
        self.policy.cells = <Cells *>calloc(count, sizeof(Cells))
        if self.policy.cells == NULL:
            raise MemoryError
        for label, server in servers:
            cells = &self.policy.cells[<uint32_t>label]
            cells.wait = WAIT.cell((server,))
            for result, name in enumerate(RESULT_NAMES):
                cells.replies[<int>result] = REPLIES.cell((server, name), True)
        handlers = attached.setdefault(self.path, [])
        if self not in handlers:
            handlers.append(self)
        watch(self.path)

    cpdef close(self):
        handlers = attached.get(self.path, [])
        if self in handlers:
            handlers.remove(self)
        watch(self.path)

    def connections(self):
        return atomic_load32(&self.policy.agent.connections)

    def waiting(self):
        return atomic_load32(&self.policy.agent.limit.queries)


# By socket: the handlers of blocks and, during a reload, of configurations.
cdef dict attached = {}


cdef int watch(str path) except -1:
    handlers = attached[path]
    if not handlers:
        CONNECTIONS.forget((path,))
        WAITING.forget((path,))
        return 0
    CONNECTIONS.watch((path,), lambda: sum(handler.connections() for handler in handlers))
    WAITING.watch((path,), lambda: sum(handler.waiting() for handler in handlers))
    return 0
