"""Regular expressions without the GIL; see expression/matcher.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset
from posix.time cimport CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID, clock_gettime, timespec
from cpython.pycapsule cimport PyCapsule_GetPointer

cdef extern from *:
    """
    #include <stdlib.h>
    /* Room for one match at a time, kept by each thread: it grows to what the largest expression wants and stays. */
    static __thread void *regex_room;
    static __thread size_t regex_size;
    static inline void *regex_scratch(size_t size) {
        if (size > regex_size) {
            void *more = realloc(regex_room, size);
            if (more == NULL) return NULL;
            regex_room = more;
            regex_size = size;
        }
        return regex_room;
    }
    """
    void *regex_scratch(size_t size) noexcept nogil

cdef enum:
    MEMORY = 16 << 20           # octets that an expression of the Corefile may take

cdef Engine *re2 = NULL
try:
    from fastdns.expression.re2 import functions as _functions
    re2 = <Engine *>PyCapsule_GetPointer(_functions, b"fastdns.expression.re2.engine")
except ImportError:
    _functions = None


def engine() -> str:
    return "RE2" if re2 != NULL else "NFA"


# ---- expressions that only a query tells ----

cdef enum:
    RECENT_MAX = 8              # that a thread remembers
    RECENT_SIZE = 1000          # octets of the longest
    RECENT_MEMORY = 256 << 10   # octets that one may take: at most two milliseconds to compile
    SHARE = 4                   # one part in so many of a thread's time may go into compiling...
    CREDIT_MAX = 50000000       # ...and so many nanoseconds at once, when there was nothing to compile before

cdef struct Known:
    uint64_t used               # count of matches when it was last used; 0: free
    void *compiled              # owned; NULL: it is no expression
    uint32_t size
    char expression[RECENT_SIZE]

cdef struct Recent:             # of one thread
    uint64_t matches
    int64_t credit              # ns; negative: the last one took more than there was
    int64_t since               # ns, monotonic, when credit was counted
    Known known[RECENT_MAX]

cdef extern from *:
    """
    static __thread void *regex_recent;     /* as long as the thread */
    """
    void *regex_recent


cdef int64_t clock(int kind) noexcept nogil:
    cdef timespec now
    clock_gettime(kind, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec


cdef bint compile_recent(Recent *recent, Known *known, const char *expression, uint32_t size) noexcept nogil:
    """Puts an expression in the place of another one; False when there is no time for it."""
    cdef char error[8]
    cdef int32_t groups
    cdef int64_t now = clock(CLOCK_MONOTONIC)
    cdef int64_t begin
    if recent.since == 0:
        recent.credit = CREDIT_MAX
    else:
        recent.credit = min(<int64_t>CREDIT_MAX, recent.credit + (now - recent.since) // SHARE)
    recent.since = now
    if recent.credit <= 0:
        return False
    begin = clock(CLOCK_THREAD_CPUTIME_ID)
    if known.compiled != NULL:
        re2.free(known.compiled)
    memcpy(known.expression, expression, size)
    known.size = size
    known.compiled = re2.compile(expression, size, RECENT_MEMORY, &groups, error, sizeof(error))
    recent.credit -= clock(CLOCK_THREAD_CPUTIME_ID) - begin
    return True


cdef int regex_match_text(const char *expression, uint32_t size, const char *text, uint32_t length) noexcept nogil:
    global regex_recent
    cdef Recent *recent = <Recent *>regex_recent
    cdef Known *known = NULL
    cdef Known *oldest
    cdef uint32_t i
    if re2 == NULL or size > RECENT_SIZE:
        return -1
    if recent == NULL:
        recent = <Recent *>calloc(1, sizeof(Recent))
        if recent == NULL:
            return -1
        regex_recent = recent
    oldest = &recent.known[0]
    for i in range(RECENT_MAX):
        if recent.known[i].used and recent.known[i].size == size and memcmp(recent.known[i].expression, expression, size) == 0:
            known = &recent.known[i]
            break
        if recent.known[i].used < oldest.used:
            oldest = &recent.known[i]
    if known == NULL:
        if not compile_recent(recent, oldest, expression, size):
            return -1
        known = oldest
    recent.matches += 1
    known.used = recent.matches
    return -1 if known.compiled == NULL else re2.match(known.compiled, text, length, NULL, 0)


# ---- our own machine ----

cdef enum Code:                 # as fastdns.expression.regex.assemble numbers them
    OCTET                       # x: number of the set that the next octet must be in
    SPLIT                       # go on at x, or else at y
    JUMP                        # to x
    SAVE                        # the position into slot x
    ASSERT                      # x: Place
    MATCH

cdef enum Place:
    TEXT_BEGIN
    TEXT_END
    LINE_BEGIN
    LINE_END
    WORD_EDGE
    NO_WORD_EDGE

cdef struct Instruction:
    uint16_t code
    uint16_t x
    uint16_t y

cdef struct Machine:
    uint32_t count
    uint32_t slots              # two a group
    Instruction *code
    uint8_t (*sets)[32]         # bits by octet
    uint32_t set_count

cdef struct Threads:            # in order of preference
    uint32_t count
    uint16_t *at                # instruction of each
    int32_t *saved              # slots of each

cdef struct Run:
    const Machine *machine
    const char *text
    uint32_t length
    uint32_t slots              # of those that are wanted
    uint32_t stamp
    uint32_t *seen              # by instruction: the stamp of the last step that reached it
    uint16_t *stack
    int32_t *undo               # slot and former value, beside the stack


cdef inline bint is_word(char c) noexcept nogil:
    return c'0' <= c <= c'9' or c'a' <= c <= c'z' or c'A' <= c <= c'Z' or c == c'_'


cdef bint stands(const Run *run, uint16_t place, uint32_t at) noexcept nogil:
    cdef bint before, behind
    if place == TEXT_BEGIN:
        return at == 0
    if place == TEXT_END:
        return at == run.length
    if place == LINE_BEGIN:
        return at == 0 or run.text[at - 1] == c'\n'
    if place == LINE_END:
        return at == run.length or run.text[at] == c'\n'
    before = at > 0 and is_word(run.text[at - 1])
    behind = at < run.length and is_word(run.text[at])
    return (before != behind) == (place == WORD_EDGE)


cdef void add_thread(Run *run, Threads *threads, uint16_t first, uint32_t at, int32_t *saved) noexcept nogil:
    """Follows all that takes no octet, best first; `saved` is as it was afterwards. An instruction is entered once a step."""
    cdef const Instruction *instruction
    cdef uint32_t depth = 0
    cdef uint16_t pc
    run.stack[0] = first
    run.undo[0] = -1
    depth = 1
    while depth:
        depth -= 1
        if run.undo[2 * depth] >= 0:                # everything behind this SAVE is done
            saved[run.undo[2 * depth]] = run.undo[2 * depth + 1]
            continue
        pc = run.stack[depth]
        while True:
            if run.seen[pc] == run.stamp:
                break
            run.seen[pc] = run.stamp
            instruction = &run.machine.code[pc]
            if instruction.code == JUMP:
                pc = instruction.x
            elif instruction.code == SPLIT:
                run.stack[depth] = instruction.y
                run.undo[2 * depth] = -1
                depth += 1
                pc = instruction.x
            elif instruction.code == SAVE:
                if instruction.x < run.slots:
                    run.undo[2 * depth] = instruction.x
                    run.undo[2 * depth + 1] = saved[instruction.x]
                    depth += 1
                    saved[instruction.x] = <int32_t>at
                pc += 1
            elif instruction.code == ASSERT:
                if not stands(run, instruction.x, at):
                    break
                pc += 1
            else:
                threads.at[threads.count] = pc
                if run.slots:
                    memcpy(&threads.saved[threads.count * run.slots], saved, run.slots * sizeof(int32_t))
                threads.count += 1
                break


cdef bint nfa_match(const void *compiled, const char *text, uint32_t length, Span *spans, uint32_t count) noexcept nogil:
    cdef const Machine *machine = <const Machine *>compiled
    cdef uint32_t n = machine.count, at = 0, i, slots = min(2 * count, machine.slots)
    cdef const Instruction *instruction
    cdef Threads lists[2]
    cdef Threads *now = &lists[0]
    cdef Threads *then = &lists[1]
    cdef Threads *swap
    cdef Run run
    cdef uint8_t octet
    cdef bint found = False
    cdef int32_t saved[2 * GROUPS_MAX]
    cdef int32_t best[2 * GROUPS_MAX]
    # seen, undo twice as deep as the program is long (each instruction pushes once), saved of both lists, then the 16-bit ones
    cdef uint8_t *room = <uint8_t *>regex_scratch(<size_t>n * (4 + 2 * 4 + 2 * 4 * slots + 2 + 2 * 2) + 64)
    if room == NULL:
        return False
    run.machine, run.text, run.length, run.slots, run.stamp = machine, text, length, slots, 0
    run.seen = <uint32_t *>room
    run.undo = <int32_t *>(run.seen + n)
    now.saved = run.undo + 2 * n + 2
    then.saved = now.saved + n * slots
    run.stack = <uint16_t *>(then.saved + n * slots)
    now.at = run.stack + n + 1
    then.at = now.at + n
    memset(run.seen, 0, n * sizeof(uint32_t))
    for i in range(slots):
        saved[i] = best[i] = -1
    now.count = 0
    run.stamp = 1
    add_thread(&run, now, 0, 0, saved)
    while True:
        run.stamp += 1
        then.count = 0
        for i in range(now.count):
            instruction = &machine.code[now.at[i]]
            if instruction.code == MATCH:
                found = True
                if slots == 0:
                    return True
                memcpy(best, &now.saved[i * slots], slots * sizeof(int32_t))
                break                               # those behind are worth less
            if at < length:
                octet = <uint8_t>text[at]
                if machine.sets[instruction.x][octet >> 3] >> (octet & 7) & 1:
                    memcpy(saved, &now.saved[i * slots], slots * sizeof(int32_t))
                    add_thread(&run, then, now.at[i] + 1, at + 1, saved)
        if at >= length:
            break
        at += 1
        if not found:                               # a match may begin here too
            for i in range(slots):
                saved[i] = -1
            add_thread(&run, then, 0, at, saved)
        if then.count == 0 and found:
            break
        swap = now
        now = then
        then = swap
    if not found:
        return False
    for i in range(count):
        spans[i].start = best[2 * i] if 2 * i + 1 < slots else -1
        spans[i].end = best[2 * i + 1] if 2 * i + 1 < slots else -1
    return True


cdef void free_machine(Machine *machine) noexcept:
    if machine != NULL:
        free(machine.code)
        free(machine.sets)
        free(machine)


cdef Machine *make_machine(program) except NULL:
    cdef Machine *machine = <Machine *>calloc(1, sizeof(Machine))
    cdef uint32_t i
    cdef bytes octets
    if machine == NULL:
        raise MemoryError
    machine.count = <uint32_t>len(program.code)
    machine.slots = 2 * <uint32_t>program.groups
    machine.set_count = <uint32_t>len(program.sets)
    machine.code = <Instruction *>calloc(machine.count + 1, sizeof(Instruction))
    machine.sets = <uint8_t (*)[32]>calloc(machine.set_count + 1, 32)
    if machine.code == NULL or machine.sets == NULL:
        free_machine(machine)
        raise MemoryError
    for i, (code, x, y) in enumerate(program.code):
        machine.code[i].code = <uint16_t>code
        machine.code[i].x = <uint16_t>x
        machine.code[i].y = <uint16_t>y
    for i, octets in enumerate(program.sets):
        memcpy(machine.sets[i], <const uint8_t *>octets, 32)
    return machine


cdef class Regex:

    def __cinit__(self, str source not None, dict names not None, program=None, tuple literal=(b"", LITERAL_NONE)):
        cdef char error[1024]
        cdef int32_t groups = 0
        cdef bytes text = source.encode("utf-8", "surrogateescape")
        self.source = source
        self.names = names
        self.literal = literal[0]
        self.pattern.literal = self.literal
        self.pattern.literal_length = <uint8_t>len(self.literal)
        self.pattern.place = literal[1]
        self.own = program is not None
        if self.own:
            self.pattern.compiled = make_machine(program)
            self.pattern.match = nfa_match
            self.pattern.groups = <uint32_t>program.groups
            return
        if re2 == NULL:
            raise RuntimeError("fastdns was built without libre2")
        self.pattern.compiled = re2.compile(text, <uint32_t>len(text), MEMORY, &groups, error, sizeof(error))
        if self.pattern.compiled == NULL:
            raise ValueError((<bytes>error).decode("utf-8", "replace"))
        self.pattern.match = re2.match
        self.pattern.groups = <uint32_t>groups + 1

    def __dealloc__(self):
        if self.own:
            free_machine(<Machine *>self.pattern.compiled)
        elif self.pattern.compiled != NULL:
            re2.free(self.pattern.compiled)

    def search(self, str text not None):
        cdef Span spans[GROUPS_MAX]
        cdef bytes octets = text.encode("utf-8", "surrogateescape")
        cdef uint32_t i, count = min(self.pattern.groups, <uint32_t>GROUPS_MAX)
        if not regex_match(&self.pattern, octets, <uint32_t>len(octets), spans, count):
            return None
        return [None if spans[i].start < 0 else octets[spans[i].start:spans[i].end].decode("utf-8", "surrogateescape") for i in range(count)]

    @property
    def groups(self):
        return self.pattern.groups - 1
