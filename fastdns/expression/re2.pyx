"""RE2, where its header was found when fastdns was built: regular expressions in linear time. `_regex` takes its functions from here."""
from libc.stdint cimport int32_t, uint32_t
from cpython.pycapsule cimport PyCapsule_New
from fastdns.expression.matcher cimport Engine, Span

cdef extern from *:
    """
    #include <cstdint>
    #include <cstring>
    #include <new>
    #include <string>
    #include <re2/re2.h>

    enum { RE2_GROUPS = 128 };

    static const char *re2_words(re2::RE2::ErrorCode code) {    /* Go's */
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
        case re2::RE2::ErrorPatternTooLarge: return "expression is too large";
        default: return "unexpected )";
        }
    }

    static void *re2_compile(const char *pattern, uint32_t length, uint32_t memory, int32_t *groups, char *error, uint32_t room) noexcept {
        try {
            re2::RE2::Options options;
            options.set_log_errors(false);
            options.set_max_mem(memory);
            re2::RE2 *compiled = new re2::RE2(re2::StringPiece(pattern, length), options);
            if (compiled->ok()) {
                *groups = compiled->NumberOfCapturingGroups();
                return compiled;
            }
            const char *words = re2_words(compiled->error_code());
            std::string argument = compiled->error_arg();
            if (compiled->error_code() == re2::RE2::ErrorMissingParen) {        /* older RE2 says so of both */
                long depth = 0;
                for (uint32_t i = 0; i < length && depth >= 0; i++) {
                    if (pattern[i] == '\\\\') i++;
                    else if (pattern[i] == '(') depth++;
                    else if (pattern[i] == ')') depth--;
                }
                if (depth < 0) words = "unexpected )";
            }
            snprintf(error, room, "%s: `%s`", words, argument.c_str());
            delete compiled;
        } catch (...) {
            snprintf(error, room, "out of memory");
        }
        return nullptr;
    }

    static void re2_free(void *compiled) noexcept { delete static_cast<re2::RE2 *>(compiled); }

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
    void *re2_compile(const char *pattern, uint32_t length, uint32_t memory, int32_t *groups, char *error, uint32_t room) noexcept nogil
    void re2_free(void *compiled) noexcept nogil
    bint re2_match(const void *compiled, const char *text, uint32_t length, int32_t *spans, uint32_t count) noexcept nogil


cdef bint match(const void *compiled, const char *text, uint32_t length, Span *spans, uint32_t count) noexcept nogil:
    return re2_match(compiled, text, length, <int32_t *>spans, count)


cdef Engine engine
engine.compile = re2_compile
engine.free = re2_free
engine.match = match

#: A capsule with the functions, for `_regex`.
functions = PyCapsule_New(&engine, b"fastdns.expression.re2.engine", NULL)
