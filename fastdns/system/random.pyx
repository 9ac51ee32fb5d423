"""ChaCha20 as a generator of unpredictable numbers (RFC 8439 2.3, with the original 64-bit counter). See the .pxd."""
from libc.stdlib cimport abort
from libc.string cimport memcpy

cdef extern from *:
    """
    #include <errno.h>
    #include <pthread.h>
    #include <stdint.h>
    #include <sys/random.h>
    #include <unistd.h>

    static uint32_t random_process;     /* pid, kept right over fork without a system call for each number */
    static void random_forked(void) { random_process = (uint32_t)getpid(); }
    static void random_watch_forks(void) {
        random_forked();
        pthread_atfork(NULL, NULL, random_forked);
    }
    static int random_fill(void *out, size_t size) {
        uint8_t *p = (uint8_t *)out;
        while (size > 0) {
            ssize_t n = getrandom(p, size, 0);
            if (n < 0) {
                if (errno == EINTR)
                    continue;
                return -1;
            }
            p += n;
            size -= (size_t)n;
        }
        return 0;
    }
    static inline uint32_t rotl32(uint32_t v, int n) { return (v << n) | (v >> (32 - n)); }
    """
    uint32_t random_process
    void random_watch_forks()
    int random_fill(void *out, size_t size) noexcept nogil
    uint32_t rotl32(uint32_t v, int n) noexcept nogil

random_watch_forks()


cdef inline void quarter_round(uint32_t *x, int a, int b, int c, int d) noexcept nogil:
    x[a] += x[b]
    x[d] = rotl32(x[d] ^ x[a], 16)
    x[c] += x[d]
    x[b] = rotl32(x[b] ^ x[c], 12)
    x[a] += x[b]
    x[d] = rotl32(x[d] ^ x[a], 8)
    x[c] += x[d]
    x[b] = rotl32(x[b] ^ x[c], 7)


cdef void chacha_block(const uint32_t *key, uint64_t counter, uint32_t *out) noexcept nogil:
    cdef uint32_t state[16]
    cdef int i, _round
    state[0] = 0x61707865       # "expand 32-byte k"
    state[1] = 0x3320646e
    state[2] = 0x79622d32
    state[3] = 0x6b206574
    for i in range(8):
        state[4 + i] = key[i]
    state[12] = <uint32_t>counter
    state[13] = <uint32_t>(counter >> 32)
    state[14] = 0
    state[15] = 0
    memcpy(out, state, sizeof(state))
    for _round in range(10):
        quarter_round(out, 0, 4, 8, 12)
        quarter_round(out, 1, 5, 9, 13)
        quarter_round(out, 2, 6, 10, 14)
        quarter_round(out, 3, 7, 11, 15)
        quarter_round(out, 0, 5, 10, 15)
        quarter_round(out, 1, 6, 11, 12)
        quarter_round(out, 2, 7, 8, 13)
        quarter_round(out, 3, 4, 9, 14)
    for i in range(16):
        out[i] += state[i]


cdef void random_init(Random *random) noexcept nogil:
    if random_fill(random.key, sizeof(random.key)) != 0:
        abort()     # an answer with a guessable id is worse than none
    random.counter = 0
    random.used = 16
    random.pid = random_process


cdef uint32_t random_next(Random *random) noexcept nogil:
    cdef uint32_t word
    if random.pid != random_process:
        random_init(random)     # a child must not repeat its parent's numbers
    if random.used >= 16:
        chacha_block(random.key, random.counter, random.block)
        random.counter += 1
        random.used = 0
    word = random.block[random.used]
    random.block[random.used] = 0   # what was given out cannot be read again
    random.used += 1
    return word


cdef class Generator:
    """A generator for Python's side: ``Generator()`` is keyed by the kernel."""
    cdef Random random

    def __cinit__(self):
        random_init(&self.random)

    def next(self) -> int:
        return random_next(&self.random)

    def below(self, uint32_t n) -> int:
        if n == 0:
            raise ValueError("nothing is below 0")
        return random_below(&self.random, n)


def keystream(bytes key not None, uint64_t counter) -> bytes:
    """One block of 64 octets for a 32-octet key: what the published test vectors are compared with."""
    cdef uint32_t words[8]
    cdef uint32_t out[16]
    if len(key) != 32:
        raise ValueError("a ChaCha20 key has 32 octets")
    memcpy(words, <const char *>key, 32)
    chacha_block(words, counter, out)
    return (<char *>out)[:64]
