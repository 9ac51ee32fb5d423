"""Which upstreams keep the letters of a question, and questions in mixed case. The contract is in _letters.pxd."""
from libc.stdint cimport uint8_t, uint32_t, int64_t
from libc.string cimport memcmp, memcpy
from fastdns.api.wire cimport FLAG_TC, HEADER_SIZE, RCODE_NOERROR, load16
from fastdns.api.memory cimport atomic_add32, atomic_load32, atomic_load_ns, atomic_store32, atomic_store_ns
from fastdns.api.random cimport random_next
from fastdns.plugins.forward._upstream cimport LETTERS_CHANGED, LETTERS_KEPT, LETTERS_UNKNOWN, WAY_UDP, Exchange, Peer

cdef enum:
    LEARN_AFTER = 1000              # replies to a worker
    LEARN_EVERY = 16                # replies from one trial to the next
    TRIALS = 16                     # that went well
    UNANSWERED_MAX = 6              # trials without answers, each of which doubles the replies to the next one

cdef int64_t FORGET = 600 * <int64_t>1000000000     # ns, after which an upstream that changes letters may be another one


cdef uint32_t learned(Peer *peer) noexcept nogil:
    cdef uint32_t state = atomic_load32(&peer.upstream.letters)
    if state == LETTERS_CHANGED and peer.share.worker.now - atomic_load_ns(&peer.upstream.letters_changed) > FORGET:
        atomic_store32(&peer.upstream.letters_trials, 0)
        atomic_store32(&peer.upstream.letters, LETTERS_UNKNOWN)
        peer.replies = 0
        return LETTERS_UNKNOWN
    return state


cdef void note_changed(Peer *peer) noexcept nogil:
    atomic_store_ns(&peer.upstream.letters_changed, peer.share.worker.now)
    atomic_store32(&peer.upstream.letters, LETTERS_CHANGED)


cdef void mix(Exchange *e) noexcept nogil:
    cdef uint8_t *name = e.request + HEADER_SIZE
    cdef uint32_t bits = 0, i, length = e.question_length - 4
    cdef uint8_t letter
    for i in range(length):
        if i & 31 == 0:
            bits = random_next(&e.share.worker.random)
        letter = name[i] | 0x20
        if <uint8_t>(letter - c'a') < 26:       # the octets of lengths are below 64
            name[i] ^= <uint8_t>((bits & 1) << 5)
        bits >>= 1
    e.mixed = 1


cdef void letters_write(Exchange *e, Peer *peer) noexcept nogil:
    cdef uint32_t state
    letters_restore(e)
    e.exact = 0
    if e.plain or e.failed or not peer.share.settings.mixed_case:
        return
    state = learned(peer)
    if state == LETTERS_KEPT:
        e.exact = 1
        if not e.signed:
            mix(e)
    elif state == LETTERS_UNKNOWN and peer.replies >= LEARN_AFTER and not e.signed:
        peer.replies -= LEARN_EVERY
        e.trial = TRIAL_MIXED
        e.exact = 1
        mix(e)


cdef void letters_restore(Exchange *e) noexcept nogil:
    if e.mixed:
        e.mixed = 0
        memcpy(e.request + HEADER_SIZE, e.waiters.name.wire, e.question_length - 4)


cdef bint letters_match(Exchange *e, Peer *peer, const uint8_t *packet) noexcept nogil:
    if not e.exact or memcmp(packet + HEADER_SIZE, e.request + HEADER_SIZE, e.question_length - 4) == 0:
        return True
    note_changed(peer)
    e.trial = TRIAL_NONE
    return False


cdef void letters_rewrite(Exchange *e, const uint8_t *packet) noexcept nogil:
    if e.mixed and e.way == WAY_UDP:    # the octets are the socket's buffer
        memcpy(<uint8_t *>packet + HEADER_SIZE, e.waiters.name.wire, e.question_length - 4)


cdef void letters_reset(Exchange *e, const uint8_t *packet) noexcept nogil:
    if e.mixed and e.way == WAY_UDP:
        memcpy(<uint8_t *>packet + HEADER_SIZE, e.request + HEADER_SIZE, e.question_length - 4)


cdef bint letters_judge(Exchange *e, Peer *peer, const uint8_t *packet, uint32_t rcode) noexcept nogil:
    cdef bint answers = rcode == RCODE_NOERROR and load16(packet + 6) != 0
    cdef uint8_t trial = e.trial
    peer.replies += 1
    if trial == TRIAL_NONE:
        return False
    e.trial = TRIAL_NONE
    if load16(packet + 2) & FLAG_TC:
        return False
    if trial == TRIAL_MIXED and not answers:
        e.trial = TRIAL_PLAIN
        peer.replies -= min(peer.replies, <uint32_t>LEARN_EVERY << peer.unanswered)
        peer.unanswered += peer.unanswered < UNANSWERED_MAX
        return True
    if trial == TRIAL_MIXED:
        peer.unanswered = 0
    if trial == TRIAL_PLAIN and answers:
        note_changed(peer)              # the same name in other letters is another one to it
    if trial == TRIAL_MIXED and atomic_add32(&peer.upstream.letters_trials, 1) >= TRIALS and learned(peer) == LETTERS_UNKNOWN:
        atomic_store32(&peer.upstream.letters, LETTERS_KEPT)
    return False


cdef bint letters_lost(Exchange *e, Peer *peer) noexcept nogil:
    cdef bint mixed = e.trial == TRIAL_MIXED
    e.trial = TRIAL_NONE
    if mixed:
        note_changed(peer)
    return mixed
