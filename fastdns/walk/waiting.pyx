"""Queries that wait, in groups. The contract is in walk/waiting.pxd."""
from libc.stdint cimport uint64_t
from fastdns.system.address cimport address_network, address_prefix
from fastdns.system.fairness cimport FAIR_LEVELS, FairEntry, fair_add, fair_choose, fair_choose_of, fair_remove
from fastdns.system.list cimport ListNode, list_container, list_first, list_next
from fastdns.walk.query cimport CHILD_MADE, CHILD_RUNS, CHILD_WAITS, query_of_node


cdef inline Query *query_of_entry(FairEntry *entry) noexcept nogil:
    return <Query *>list_container(<ListNode *>entry, <size_t>&(<Query *>NULL).fair)


cdef void sort_waiting(Worker *worker) noexcept nogil:
    """Puts all that wait into groups, unless they are."""
    cdef ListNode *node
    cdef Query *q
    if worker.crowded:
        return
    node = list_first(&worker.waiting)
    while node != NULL:
        q = query_of_node(node)
        # Its deadline does not run: it is being resumed.
        if q.timer.deadline and not q.evicted and q.in_child != CHILD_MADE and q.in_child != CHILD_RUNS and q.in_child != CHILD_WAITS:
            waiting_add(q)
        node = list_next(&worker.waiting, node)
    # Relative to what waits now: slots may be taken by transfers, too, and sorting costs as much as there is to sort.
    worker.crowded = worker.parked // 2 + 1


cdef Query *waiting_choose(Worker *worker) noexcept nogil:
    sort_waiting(worker)
    return query_of_entry(fair_choose(worker.fair))


cdef bint waiting_evict(Query *q) noexcept nogil:
    cdef Worker *worker = q.worker
    cdef FairEntry *entry
    cdef Query *chosen
    sort_waiting(worker)
    entry = fair_choose_of(worker.fair, <uint64_t>q.awaited)
    if entry == NULL or query_of_entry(entry) == q:
        return False
    chosen = query_of_entry(entry)
    waiting_end(chosen)
    chosen.evicted = 1
    worker.ops.timer_start(worker, &chosen.timer, worker.now)   # not here: q is in the middle of a hook
    return True


cdef void waiting_relax(Worker *worker) noexcept nogil:
    cdef ListNode *node = list_first(&worker.waiting)
    worker.crowded = 0
    while node != NULL:
        if query_of_node(node).fair.group != NULL:
            waiting_remove(query_of_node(node))
        node = list_next(&worker.waiting, node)


cdef void waiting_add(Query *q) noexcept nogil:
    cdef uint64_t keys[FAIR_LEVELS]
    keys[0] = <uint64_t>(q.awaited if q.awaited != NULL else q.chain.handlers[q.position])
    keys[1] = <uint64_t>q.zone
    keys[2] = address_prefix(&q.client)
    keys[3] = address_network(&q.client)
    fair_add(q.worker.fair, &q.fair, keys)


cdef void waiting_remove(Query *q) noexcept nogil:
    fair_remove(q.worker.fair, &q.fair)
