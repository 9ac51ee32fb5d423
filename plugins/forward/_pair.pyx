"""Both upstreams of a question, as they are told. The contract is in _pair.pxd."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, int64_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy
from fastdns.api.query cimport Explanation, Handler, Query, query_scratch
from fastdns.api.text cimport Text, text_rcode
from fastdns.plugins.forward._instance cimport Forward, Waiting
from fastdns.plugins.forward._upstream cimport HEDGE_FIRST, HEDGE_SECOND, Exchange, WAY_UDP
from fastdns.plugins.forward._waiters cimport waiting_of
from fastdns.plugins.recorder._asked cimport (FATE_ANSWERED, FATE_DISCARDED, FATE_FAILED, FATE_REPLIED, FATE_TIMEOUT, FATE_WAITING, AskedUpstream, Fate)


cdef inline AskedUpstream *pair_of(Exchange *e, Query *q) noexcept nogil:
    return <AskedUpstream *>(waiting_of(e, q) + 1)


cdef inline void tell(Exchange *e, Query *q, const AskedUpstream *pair) noexcept nogil:
    cdef Forward *forward = <Forward *>e.share.owner
    if forward.asked != NULL:
        forward.asked(q, pair)


cdef inline void begin(AskedUpstream *asked, const Exchange *e) noexcept nogil:
    asked.upstream = e.upstream.text
    asked.asked = e.asked
    asked.took = 0
    asked.rcode = 0
    asked.fate = FATE_WAITING
    asked.udp = e.way == WAY_UDP or e.upstream.quic != NULL


cdef void pair_begin(Exchange *first, Exchange *second) noexcept nogil:
    cdef AskedUpstream *pair
    cdef Query *q = first.waiters
    first.hedging = HEDGE_FIRST         # it may have been the second one of an earlier pair
    second.hedging = HEDGE_SECOND
    first.paired = second.paired = first.asked
    while q != NULL:
        pair = pair_of(first, q)
        begin(&pair[0], first)
        begin(&pair[1], second)
        tell(first, q, pair)
        q = waiting_of(first, q).next


cdef void pair_join(Exchange *first, Query *q, const Waiting *waiting) noexcept nogil:
    cdef AskedUpstream *pair = pair_of(first, q)
    memcpy(pair, pair_of(first, waiting.next), 2 * sizeof(AskedUpstream))
    tell(first, q, pair)


cdef void pair_end(Exchange *e, Fate fate, uint32_t rcode) noexcept nogil:
    cdef AskedUpstream *pair
    cdef AskedUpstream *one
    cdef Query *q = e.waiters
    cdef bint is_second = e.hedging & HEDGE_SECOND != 0
    if not e.hedging & (HEDGE_FIRST | HEDGE_SECOND):
        return
    e.hedging &= <uint8_t>~(HEDGE_FIRST | HEDGE_SECOND)
    while q != NULL:
        pair = pair_of(e, q)
        one = &pair[<int>is_second]
        if pair[0].asked == e.paired and one.upstream == e.upstream.text:   # else it waits for this one alone
            one.fate = <uint8_t>fate
            one.rcode = <uint16_t>rcode
            one.took = <uint32_t>min((e.share.worker.now - one.asked) // 1000, <int64_t>0xFFFFFFFF)
            tell(e, q, pair)
        q = waiting_of(e, q).next


# ---- words ----

cdef void put_fate(char *out, size_t size, const AskedUpstream *asked) noexcept nogil:
    cdef double took = asked.took / 1000.0
    cdef char code[16]
    cdef Text text
    if asked.fate == FATE_ANSWERED:
        snprintf(out, size, b"answered in %.1f ms", took)
    elif asked.fate == FATE_REPLIED:
        text.out, text.used, text.capacity, text.full = code, 0, sizeof(code) - 1, 0
        text_rcode(&text, asked.rcode)
        code[text.used] = 0
        snprintf(out, size, b"%s in %.1f ms, not the answer", code, took)
    elif asked.fate == FATE_TIMEOUT:
        snprintf(out, size, b"timed out after %.1f ms", took)
    elif asked.fate == FATE_FAILED:
        snprintf(out, size, b"failed after %.1f ms", took)
    elif asked.fate == FATE_DISCARDED:
        snprintf(out, size, b"no reply in %.1f ms, a later one is discarded", took)
    else:
        snprintf(out, size, b"no reply")


cdef void pair_explain(Handler *self, Query *q, Explanation *out) noexcept nogil:
    cdef const Waiting *waiting = <const Waiting *>query_scratch(self, q)
    cdef const AskedUpstream *pair = <const AskedUpstream *>(waiting + 1)
    cdef char fates[2][80]
    if waiting.upstream == NULL:
        return
    memcpy(out.upstream, waiting.upstream.text, sizeof(out.upstream))
    if pair[0].upstream == NULL:
        return
    put_fate(fates[0], sizeof(fates[0]), &pair[0])
    put_fate(fates[1], sizeof(fates[1]), &pair[1])
    snprintf(out.note, sizeof(out.note), b"asked %s: %s; after %.1f ms %s too: %s", pair[0].upstream, fates[0],
             <double>(pair[1].asked - pair[0].asked) / 1e6, pair[1].upstream, fates[1])
