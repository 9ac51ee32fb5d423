"""The other server: questions that wait for its answers, and what becomes of these. One thread alone uses all of it.

A slot holds a question with our reply. It waits for an answer (`waiting`, in the order of asking). After the timeout it is `doubtful`: if another answer
comes from the server, it has left this question unanswered; if none comes, the server is silent, and the question says nothing. An answer that equals ours is
counted, and its slot is free. Of one that does not, question and both replies are `suspects`, which Python looks at; too many of them are only counted.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t, int64_t
from fastdns.api.memory cimport List, ListNode
from fastdns.api.random cimport Random
from fastdns.plugins.shadow._copies cimport COPY_MAX, REPLY_MAX, Core

cdef enum:
    IDS = 65536
    SILENT_AFTER = 8            # unanswered questions in a row, after which the server is silent
    SUSPECTS_MAX = 16           # that Python takes at a time
    STRAYS_MAX = 1000           # datagrams in a second that answer nothing, above which the server is not listened to

cdef struct Slot:
    ListNode node               # first; of `free`, `waiting` or `doubtful`
    int64_t deadline            # ns, monotonic
    uint16_t id
    uint8_t copy[COPY_MAX]      # a Copy

cdef struct Suspect:
    uint8_t copy[COPY_MAX]
    uint32_t reply_length       # 0: it has not answered
    uint8_t reply[REPLY_MAX]

cdef struct Exchange:
    Core core                   # what workers see
    int fd                      # connected; Python's
    uint8_t is_up               # it has answered since it was tried out
    uint32_t count              # slots
    uint32_t doubtful_count
    uint32_t suspect_count
    int64_t timeout             # ns
    int64_t examine_interval    # ns between two suspects, in the mean
    int64_t examine_turn
    int64_t stray_since
    uint32_t strays             # since then
    uint32_t cells              # the first of the results, by Result
    uint64_t same               # results so far, as the metric counts them
    uint64_t truncated
    uint64_t unexamined
    Random random
    List free
    List waiting
    List doubtful
    Slot *slots
    Suspect *suspects           # SUSPECTS_MAX
    uint16_t by_id[IDS]         # number of the slot + 1

cdef class Target:              # Target(name, address, is_local, share, rate, outstanding, timeout, octets, examined)
    cdef Exchange *exchange
    cdef readonly str name
    cdef object __weakref__
