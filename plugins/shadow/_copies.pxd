"""Copies of questions and replies on their way from the workers to the thread that asks the other server: a ring of octets for each worker.

If there is no room, or there are more than the rate allows, the copy is left out and counted; a worker never waits.

Memory order. That of the rings is in fastdns/telemetry/rings.pxd. `wanted` orders nothing: who finds ONE exchanges it for NONE, so that one worker alone
makes that copy.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from fastdns.api.network cimport Address
from fastdns.api.query cimport Query
from fastdns.api.rings cimport Rings
from fastdns.api.worker cimport WORKERS_MAX

cdef enum:
    REPLY_MAX = 4096            # octets of a reply that is compared
    RING_LEAST = 65536
    SHARE_ALL = 0xFFFFFFFF

cdef enum Wanted:
    NONE                        # the other server is silent, or nobody asks it: nothing is copied
    ONE                         # it is tried out
    ALL

cdef enum Skipped:              # why a question is not asked of the other server, or its answer not compared
    SKIPPED_RATE                # more than the rate
    SKIPPED_BUFFER              # no room in the ring
    SKIPPED_LARGE               # a reply over REPLY_MAX octets
    SKIPPED_LATE                # it waited in the ring for longer than the timeout
    SKIPPED_SILENT              # the other server does not answer
    SKIPPED_KINDS

cdef struct Copy:
    uint32_t size               # octets in all; a multiple of 8
    uint16_t question_length
    uint16_t reply_length
    int64_t at                  # ns, monotonic: when the query came
    Address client
    # question and reply follow

cdef enum:
    COPY_MAX = 4608             # octets: head, QUESTION_MAX, REPLY_MAX

cdef struct Core:               # what handlers use of a target
    Rings rings
    int64_t turns[WORKERS_MAX]  # each worker's: when the rate allows its next copy
    uint32_t share              # of 2**32: which part of the questions; SHARE_ALL: all
    uint32_t wanted             # Wanted; atomic
    int64_t interval            # ns between two copies of all workers
    uint32_t skipped            # the first of the cells, by Skipped
    uint32_t own_port           # of the socket that asks; atomic
    Address target
    uint8_t is_local            # the target is on this machine: clients have its address, too

# After a reply is fitted: copies question and reply, if they are wanted.
cdef void copy_query(Core *core, Query *q) noexcept nogil
# The oldest copy of a ring, until copy_done; NULL: there is none.
cdef const Copy *copy_first(Core *core, uint32_t worker) noexcept nogil
cdef void copy_done(Core *core, uint32_t worker, const Copy *copy) noexcept nogil

cdef inline const uint8_t *copy_question(const Copy *copy) noexcept nogil:
    return <const uint8_t *>copy + sizeof(Copy)

cdef inline const uint8_t *copy_reply(const Copy *copy) noexcept nogil:
    return <const uint8_t *>copy + sizeof(Copy) + copy.question_length
