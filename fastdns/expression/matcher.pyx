"""Regular expressions by RE2; see expression/matcher.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc
from libc.string cimport memcmp, memcpy
from libcpp.map cimport map
from libcpp.string cimport string
from posix.time cimport CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID, clock_gettime, timespec

cdef extern from *:
    """
    #include <cstdint>
    #include <cstdio>
    #include <map>
    #include <string>
    #include <re2/re2.h>

    enum { RE2_GROUPS = 128 };

    /* Go's text for an error code of RE2. */
    static const char *re2_reason(int32_t code) {
        switch (code) {
        case re2::RE2::ErrorBadEscape: return "invalid escape sequence";
        case re2::RE2::ErrorBadCharClass: return "invalid character class";
        case re2::RE2::ErrorBadCharRange: return "invalid character class range";
        case re2::RE2::ErrorMissingBracket: return "missing closing ]";
        case re2::RE2::ErrorMissingParen: return "missing closing )";
        case re2::RE2::ErrorTrailingBackslash: return "trailing backslash at end of expression";
        case re2::RE2::ErrorRepeatArgument: return "missing argument to repetition operator";
        case re2::RE2::ErrorRepeatSize: return "invalid repeat count";
        case re2::RE2::ErrorRepeatOp: return "invalid nested repetition operator";
        case re2::RE2::ErrorBadPerlOp: return "invalid or unsupported Perl syntax";
        case re2::RE2::ErrorBadUTF8: return "invalid UTF-8";
        case re2::RE2::ErrorBadNamedCapture: return "invalid named capture";
        case re2::RE2::ErrorPatternTooLarge: return "expression too large";
        default: return "regexp/syntax: internal error";
        }
    }

    /* NULL with the code and the part of the expression that RE2 refuses, or with code 0 without memory.
       memory: octets that program and states may take. */
    static void *re2_compile(const char *pattern, uint32_t length, uint32_t memory, int32_t *code, char *argument, uint32_t capacity) noexcept {
        *code = 0;
        try {
            re2::RE2::Options options;
            options.set_log_errors(false);
            options.set_max_mem(memory);
            re2::RE2 *compiled = new re2::RE2(re2::StringPiece(pattern, length), options);
            if (compiled->ok()) return compiled;
            *code = compiled->error_code();
            snprintf(argument, capacity, "%s", compiled->error_arg().c_str());
            delete compiled;
        } catch (...) {
        }
        return nullptr;
    }

    static void re2_free(void *compiled) noexcept { delete static_cast<re2::RE2 *>(compiled); }

    /* Capturing groups, the whole match not counted. */
    static uint32_t re2_group_count(const void *compiled) noexcept {
        return static_cast<uint32_t>(static_cast<const re2::RE2 *>(compiled)->NumberOfCapturingGroups());
    }

    static std::map<int, std::string> re2_group_names(const void *compiled) {
        return static_cast<const re2::RE2 *>(compiled)->CapturingGroupNames();
    }

    template <int MOST>
    static int re2_groups(const void *compiled, const char *text, uint32_t length, int32_t *spans, uint32_t count) noexcept {
        re2::StringPiece groups[MOST];
        try {
            const re2::RE2 *re = static_cast<const re2::RE2 *>(compiled);
            if (!re->Match(re2::StringPiece(text, length), 0, length, re2::RE2::UNANCHORED, groups, static_cast<int>(count))) return 0;
        } catch (...) {
            return 0;
        }
        for (uint32_t i = 0; i < count; i++) {
            spans[2 * i] = groups[i].data() ? static_cast<int32_t>(groups[i].data() - text) : -1;
            spans[2 * i + 1] = groups[i].data() ? static_cast<int32_t>(groups[i].data() - text + groups[i].size()) : -1;
        }
        return 1;
    }

    /* spans: start and end of each group, -1 for one that took no part. Groups are cleared first: no more of them than most expressions have. */
    static int re2_match(const void *compiled, const char *text, uint32_t length, int32_t *spans, uint32_t count) noexcept {
        if (count <= 8) return re2_groups<8>(compiled, text, length, spans, count);
        return re2_groups<RE2_GROUPS>(compiled, text, length, spans, count > RE2_GROUPS ? RE2_GROUPS : count);
    }
    """
    const char *re2_reason(int32_t code) noexcept nogil
    void *re2_compile(const char *pattern, uint32_t length, uint32_t memory, int32_t *code, char *argument, uint32_t capacity) noexcept nogil
    void re2_free(void *compiled) noexcept nogil
    uint32_t re2_group_count(const void *compiled) noexcept nogil
    map[int, string] re2_group_names(const void *compiled) except +
    bint re2_match(const void *compiled, const char *text, uint32_t length, int32_t *spans, uint32_t count) noexcept nogil

cdef enum:
    MEMORY = 16 << 20           # octets that an expression of the Corefile may take
    ARGUMENT_SIZE = 16 << 10    # octets of an error's argument, which may be the whole expression


cdef bint regex_search(const void *compiled, const char *text, uint32_t length, Span *spans, uint32_t count) noexcept nogil:
    return re2_match(compiled, text, length, <int32_t *>spans, count)


# ---- expressions that are computed for a query ----

cdef enum:
    RECENT_MAX = 8              # compiled expressions that a thread caches
    RECENT_SIZE = 1000          # octets of the longest such expression
    RECENT_MEMORY = 256 << 10   # octets of memory of a compiled one: it takes at most two milliseconds to compile
    SHARE = 4                   # a thread spends at most 1/SHARE of its time on compiling
    CREDIT_MAX = 50000000       # ns: most time for compiling that a thread saves up

cdef struct Known:
    uint64_t used               # count of matches when it was last used; 0: free
    void *compiled              # owned; NULL: the expression is malformed
    uint32_t size
    char expression[RECENT_SIZE]

cdef struct Recent:             # cache of one thread
    uint64_t matches
    int64_t credit              # ns left for compiling; negative: the last one took more than was left
    int64_t since               # ns, monotonic, when credit was updated
    Known known[RECENT_MAX]

cdef extern from *:
    """
    static __thread void *regex_recent;     /* freed never: workers live as long as the process */
    """
    void *regex_recent


cdef int64_t clock(int kind) noexcept nogil:
    cdef timespec now
    clock_gettime(kind, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec


cdef bint compile_recent(Recent *recent, Known *known, const char *expression, uint32_t size) noexcept nogil:
    """Compiles an expression into the cache in place of another one. False when the thread has no time left for it."""
    cdef char argument[8]
    cdef int32_t code
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
        re2_free(known.compiled)
    memcpy(known.expression, expression, size)
    known.size = size
    known.compiled = re2_compile(expression, size, RECENT_MEMORY, &code, argument, sizeof(argument))
    recent.credit -= clock(CLOCK_THREAD_CPUTIME_ID) - begin
    return True


cdef int regex_match_text(const char *expression, uint32_t size, const char *text, uint32_t length) noexcept nogil:
    global regex_recent
    cdef Recent *recent = <Recent *>regex_recent
    cdef Known *known = NULL
    cdef Known *oldest
    cdef uint32_t i
    if size > RECENT_SIZE:
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
    return -1 if known.compiled == NULL else regex_search(known.compiled, text, length, NULL, 0)


# ---- expressions of the Corefile ----

cdef class Regex:

    def __cinit__(self, str source not None, str spelling=None, tuple literal=(b"", LITERAL_NONE)):
        cdef char argument[ARGUMENT_SIZE]
        cdef int32_t code
        cdef map[int, string] names
        cdef bytes text = (source if spelling is None else spelling).encode("utf-8", "surrogateescape")
        self.compiled = re2_compile(text, <uint32_t>len(text), MEMORY, &code, argument, ARGUMENT_SIZE)
        if self.compiled == NULL:
            if code == 0:
                raise MemoryError
            raise ValueError((<bytes>re2_reason(code)).decode(), (<bytes>argument).decode("utf-8", "surrogateescape"))
        self.source = source
        names = re2_group_names(self.compiled)
        self.names = {(<bytes>name.second).decode(): name.first for name in names}   # of groups with one name the last
        self.literal = literal[0]
        self.pattern.literal = self.literal
        self.pattern.literal_length = <uint8_t>len(self.literal)
        self.pattern.place = literal[1]
        self.pattern.compiled = self.compiled
        self.pattern.groups = re2_group_count(self.compiled) + 1

    def __dealloc__(self):
        re2_free(self.compiled)

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
