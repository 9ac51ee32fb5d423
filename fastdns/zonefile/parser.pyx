"""Master files. The contract is in zonefile/parser.pxd."""
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport EINTR, EISDIR, ENOMEM, errno
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy, memset, strlen, strncpy, strrchr
from fastdns.zonefile.fields cimport BITMAP_OCTETS, RDATA_MAX, RdataText, field_end
from fastdns.zonefile.generate cimport Generator, generator_add, generator_end, generator_line, generator_range
from fastdns.zonefile.lexer cimport LEX_BAD, LEX_END, LEX_LINE, LEX_QUOTED, LEX_WORD, Lexer, LexKind, Token, lexer_begin, lexer_next, token_is
from fastdns.zonefile.rdata cimport rdata_parse
from fastdns.zonefile.spans cimport span_class, span_name, span_period, span_type
from fastdns._wire cimport NAME_MAX, Name, wire_name_copy, wire_name_index
from fastdns.protocol.rrtypes cimport rrtype_is_meta

import os

from fastdns._wire import name_wire

cdef extern from "<fcntl.h>" nogil:
    int open_file "open"(const char *path, int flags)
    enum: O_RDONLY
    enum: O_CLOEXEC
    enum: O_NONBLOCK

cdef extern from "<unistd.h>" nogil:
    ssize_t read_octets "read"(int fd, void *out, size_t count)
    int close_file "close"(int fd)

cdef extern from "<sys/stat.h>" nogil:
    struct stat:
        int64_t st_size
        unsigned int st_mode
    int fstat(int fd, stat *out)
    bint S_ISDIR(unsigned int mode)

cdef extern from *:
    """
    #include <string.h>
    #include <ctype.h>
    #include <errno.h>
    static void set_errno(int number) { errno = number; }
    static void error_text(int number, char *out, size_t capacity)
    {
        snprintf(out, capacity, "%s", strerrordesc_np(number) ? strerrordesc_np(number) : "unknown error");
        out[0] = tolower((unsigned char)out[0]);
    }
    """
    void set_errno(int number) noexcept nogil
    void error_text(int number, char *out, size_t capacity) noexcept nogil

cdef enum:
    INCLUDE_DEPTH = 7           # as CoreDNS's parser has it
    GENERATE_TTL = 3600         # seconds; of generated records without one, whatever $TTL says: as CoreDNS's parser has it
    READ_OCTETS = 65536


# ---- files ----

cdef struct Frame:              # a file or a $GENERATE that is being read
    ZoneParser *parser
    Frame *above
    const char *path
    Lexer lexer
    RdataText rdata
    Name origin
    Name owner
    uint32_t default_ttl
    uint32_t ttl                # of the current record
    uint32_t line               # where it begins
    uint16_t klass
    uint8_t has_default
    uint8_t by_directive        # the default TTL is from $TTL
    uint8_t has_owner
    uint8_t generated
    uint8_t depth


cdef ZoneParser *zonefile_begin(const Name *origin) noexcept nogil:
    cdef ZoneParser *parser = <ZoneParser *>calloc(1, sizeof(ZoneParser))
    if parser == NULL:
        return NULL
    parser.rdata = <uint8_t *>calloc(1, RDATA_MAX + BITMAP_OCTETS)
    parser.outermost = malloc(sizeof(Frame))
    if parser.rdata == NULL or parser.outermost == NULL:
        zonefile_end(parser)
        return NULL
    wire_name_copy(&parser.origin, origin.wire, origin.length)
    return parser


cdef void zonefile_end(ZoneParser *parser) noexcept nogil:
    free(parser.outermost)
    free(parser.rdata)
    free(parser)


cdef int zonefile_read(ZoneParser *parser, const char *path, zone_sink sink, void *self) noexcept nogil:
    cdef size_t length
    cdef char *text = read_file(path, &length)
    cdef int status
    if text == NULL:
        parser.error_number = errno
        strncpy(parser.path, path, ZONE_PATH_MAX - 1)
        parser.outcome = ZONEFILE_UNREADABLE
        return ZONEFILE_UNREADABLE
    status = zonefile_parse(parser, text, length, path, sink, self)
    free(text)
    return status


cdef int zonefile_parse(ZoneParser *parser, const char *text, size_t length, const char *path, zone_sink sink, void *self) noexcept nogil:
    cdef Frame *frame = <Frame *>parser.outermost
    parser.sink = sink
    parser.self = self
    parser.fresh = 1
    frame_begin(frame, parser, NULL, path)
    wire_name_copy(&frame.origin, parser.origin.wire, parser.origin.length)
    frame.has_default = parser.has_ttl
    frame.default_ttl = parser.ttl
    lexer_begin(&frame.lexer, text, length, 1)
    parser.outcome = parse_lines(frame)
    return parser.outcome


cdef char *read_file(const char *path, size_t *length) noexcept nogil:
    """Reads a file into malloc'ed memory; NULL with errno. The file is not mapped: truncating a mapped file kills its readers by SIGBUS."""
    cdef int fd = open_file(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), number = 0
    cdef stat status
    cdef size_t capacity, used = 0
    cdef ssize_t got
    cdef char *text
    cdef char *larger
    if fd < 0:
        return NULL
    if fstat(fd, &status) < 0:
        status.st_size = 0
        status.st_mode = 0
    if S_ISDIR(status.st_mode):
        close_file(fd)
        set_errno(EISDIR)
        return NULL
    capacity = <size_t>status.st_size + 1
    text = <char *>malloc(capacity)
    while text != NULL:
        if used == capacity:
            capacity += capacity // 2 + READ_OCTETS
            larger = <char *>realloc(text, capacity)
            if larger == NULL:
                free(text)
            text = larger
            continue
        got = read_octets(fd, text + used, capacity - used)
        if got == 0:
            break
        if got < 0:
            number = errno
            if number == EINTR:
                continue
            free(text)
            text = NULL
        else:
            used += got
    close_file(fd)
    if text == NULL:
        set_errno(number if number else ENOMEM)
    length[0] = used
    return text


cdef Frame *make_frame(ZoneParser *parser, Frame *above, const char *path) noexcept nogil:
    cdef Frame *frame = <Frame *>malloc(sizeof(Frame))
    if frame != NULL:
        frame_begin(frame, parser, above, path)
    return frame


cdef void frame_begin(Frame *frame, ZoneParser *parser, Frame *above, const char *path) noexcept nogil:
    memset(frame, 0, sizeof(Frame))
    frame.parser = parser
    frame.above = above
    frame.path = path
    frame.rdata.lexer = &frame.lexer
    frame.rdata.out = parser.rdata
    frame.rdata.bitmap = parser.rdata + RDATA_MAX
    if above != NULL:
        frame.depth = above.depth + 1
        wire_name_copy(&frame.origin, above.origin.wire, above.origin.length)


# ---- errors ----

cdef int fail(Frame *frame, const char *what) noexcept nogil:
    """Ends the parsing with an error at the current token."""
    cdef ZoneParser *parser = frame.parser
    cdef const Token *token = &frame.lexer.token
    cdef uint32_t length = token.length if token.length < ZONE_TOKEN_MAX else ZONE_TOKEN_MAX
    snprintf(parser.text, sizeof(parser.text), b"%s", what)
    snprintf(parser.path, sizeof(parser.path), b"%s", frame.path)
    memcpy(parser.token, token.text, length)
    parser.token_length = length
    parser.line = token.line
    parser.column = token.column
    return ZONEFILE_FAILED


cdef inline int fail_at(Frame *frame, const char *what) noexcept nogil:
    """As `fail`, but with the lexer's error text when the lexer failed."""
    return fail(frame, frame.lexer.token.text if frame.lexer.failed else what)


# ---- lines ----

cdef int parse_lines(Frame *frame) noexcept nogil:
    cdef int status = ZONEFILE_OK
    cdef LexKind kind
    while status == ZONEFILE_OK:
        kind = lexer_next(&frame.lexer)
        if kind == LEX_END:
            return ZONEFILE_OK
        if kind == LEX_LINE:
            continue
        if kind != LEX_WORD:
            return fail_at(frame, b"syntax error at beginning")
        frame.klass = 1
        if not frame.generated:
            frame.line = frame.lexer.token.line
        if frame.has_default:
            frame.ttl = frame.default_ttl
        if not frame.lexer.token.first:
            status = parse_record(frame, False)
        elif frame.lexer.token.text[0] == c'$' and is_directive(&frame.lexer.token):
            status = parse_directive(frame)
        else:
            status = parse_owner(frame)
            if status == ZONEFILE_OK:
                kind = lexer_next(&frame.lexer)
                status = parse_record(frame, True)
    return status


cdef int parse_owner(Frame *frame) noexcept nogil:
    cdef uint8_t wire[NAME_MAX]
    cdef int length = span_name(frame.lexer.token.text, frame.lexer.token.length, frame.origin.wire, frame.origin.length, wire)
    if length < 0:
        return fail(frame, b"bad owner name")
    if not frame.has_owner or length != frame.owner.length or memcmp(wire, frame.owner.wire, length) != 0:
        memcpy(frame.owner.wire, wire, length)
        wire_name_index(&frame.owner)
        frame.has_owner = 1
        frame.parser.fresh = 1
    return ZONEFILE_OK


cdef int parse_record(Frame *frame, bint after_owner) noexcept nogil:
    """Reads TTL and class in either order, type and rdata. The first word is the current token."""
    cdef const Token *token = &frame.lexer.token
    cdef bint has_ttl = False, has_class = False, has_any = False
    cdef int type = -1, klass
    cdef ZoneRecord record
    while True:
        if token.kind != LEX_WORD:
            return fail_at(frame, b"unknown RR type" if has_ttl and has_class else b"expecting RR type or class, not this..." if has_ttl else
                           b"expecting RR type or TTL, not this..." if has_class else b"expecting RR type, TTL or class, not this...")
        # ANY is a type as well as a class. CoreDNS takes it as the type and reads rdata next.
        type = -1 if has_any else span_type(token.text, token.length)
        if type == -2:
            return fail(frame, b"unknown RR type")
        klass = -1 if has_any else span_class(token.text, token.length)
        if klass == -2:
            return fail(frame, b"unknown class")
        if klass >= 0:
            if has_class:
                return fail(frame, b"unknown RR type" if has_ttl else b"expecting RR type or TTL, not this...")
            has_class = True
            has_any = type >= 0
            frame.klass = <uint16_t>klass
        elif type >= 0:
            break
        elif has_ttl:
            return fail(frame, b"unknown RR type" if has_class else b"expecting RR type or class, not this...")
        elif span_period(token.text, token.length, &frame.ttl) < 0:
            return fail(frame, b"not a TTL")
        else:
            has_ttl = True
            if not frame.has_default or not frame.by_directive:
                frame.has_default = 1
                frame.default_ttl = frame.ttl
        lexer_next(&frame.lexer)
    if after_owner and not has_ttl and not has_class and not frame.has_default:
        return fail(frame, b"missing TTL with no previous value")
    if not frame.has_owner:
        return fail(frame, b"bad owner name")
    if rrtype_is_meta(<uint16_t>type):
        return fail(frame, b"unknown RR type")
    frame.rdata.origin = frame.origin.wire
    frame.rdata.origin_length = frame.origin.length
    if rdata_parse(&frame.rdata, <uint16_t>type) < 0:
        return fail(frame, frame.rdata.failure)
    record.owner = &frame.owner
    record.same_owner = not frame.parser.fresh
    record.type = <uint16_t>type
    record.klass = frame.klass
    record.ttl = frame.ttl
    record.rdata = frame.rdata.out
    record.rdlength = <uint16_t>frame.rdata.used
    record.path = frame.path
    record.line = frame.line
    frame.parser.fresh = 0
    return frame.parser.sink(frame.parser.self, &record)


# ---- directives ----

cdef inline bint is_directive(const Token *token) noexcept nogil:
    return token_is(token, b"$TTL", 4) or token_is(token, b"$ORIGIN", 7) or token_is(token, b"$INCLUDE", 8) or token_is(token, b"$GENERATE", 9)


cdef int parse_directive(Frame *frame) noexcept nogil:
    cdef Token *token = &frame.lexer.token
    cdef uint8_t wire[NAME_MAX]
    cdef Token value
    cdef int length
    if token_is(token, b"$INCLUDE", 8):
        return parse_include(frame)
    if token_is(token, b"$GENERATE", 9):
        return parse_generate(frame)
    if token_is(token, b"$TTL", 4):
        if lexer_next(&frame.lexer) != LEX_WORD:
            return fail_at(frame, b"expecting $TTL value, not this...")
        value = token[0]
        if field_end(&frame.rdata) < 0:
            return fail_at(frame, b"garbage after rdata")
        if span_period(value.text, value.length, &frame.default_ttl) < 0:
            token[0] = value
            return fail(frame, b"expecting $TTL value, not this...")
        frame.has_default = 1
        frame.by_directive = 1
        return ZONEFILE_OK
    if lexer_next(&frame.lexer) != LEX_WORD:
        return fail_at(frame, b"expecting $ORIGIN value, not this...")
    value = token[0]
    if field_end(&frame.rdata) < 0:
        return fail_at(frame, b"garbage after rdata")
    length = span_name(value.text, value.length, frame.origin.wire, frame.origin.length, wire)
    if length < 0:
        token[0] = value
        return fail(frame, b"bad origin name")
    memcpy(frame.origin.wire, wire, length)
    wire_name_index(&frame.origin)
    return ZONEFILE_OK


cdef int parse_include(Frame *frame) noexcept nogil:
    """$INCLUDE FILE [ORIGIN]; FILE is relative to the folder of the current file."""
    cdef Token *token = &frame.lexer.token
    cdef Token file
    cdef LexKind kind
    cdef uint8_t wire[NAME_MAX]
    cdef char path[ZONE_PATH_MAX]
    cdef int length = -1, status
    if lexer_next(&frame.lexer) != LEX_WORD:
        return fail_at(frame, b"expecting $INCLUDE value, not this...")
    file = token[0]
    kind = lexer_next(&frame.lexer)
    if kind == LEX_WORD:
        length = span_name(token.text, token.length, frame.origin.wire, frame.origin.length, wire)
        if length < 0:
            return fail(frame, b"bad origin name")
        if field_end(&frame.rdata) < 0:
            return fail_at(frame, b"garbage after $INCLUDE")
    elif kind != LEX_LINE and kind != LEX_END:
        return fail_at(frame, b"garbage after $INCLUDE")
    token[0] = file
    if frame.depth >= INCLUDE_DEPTH:
        return fail(frame, b"too deeply nested $INCLUDE")
    if join_path(frame.path, &file, path) < 0:
        return fail(frame, b"too long a path in $INCLUDE")
    status = read_inner(frame, path, wire if length > 0 else NULL, length)
    if status == ZONEFILE_UNREADABLE:
        token[0] = file
        return fail_open(frame, path)
    return status


cdef int join_path(const char *including, const Token *file, char *out) noexcept nogil:
    cdef const char *slash = strrchr(including, c'/')
    cdef size_t folder = 0
    if file.text[0] != c'/' and slash != NULL:
        folder = slash - including + 1
    if folder + file.length >= ZONE_PATH_MAX or memchr(file.text, 0, file.length) != NULL:
        return -1
    memcpy(out, including, folder)
    memcpy(out + folder, file.text, file.length)
    out[folder + file.length] = 0
    return 0


cdef int read_inner(Frame *frame, const char *path, const uint8_t *origin, int origin_length) noexcept nogil:
    cdef Frame *inner
    cdef size_t length
    cdef char *text = read_file(path, &length)
    cdef int status
    if text == NULL:
        return ZONEFILE_UNREADABLE
    inner = make_frame(frame.parser, frame, path)
    if inner == NULL:
        free(text)
        return ZONEFILE_MEMORY
    if origin != NULL:
        wire_name_copy(&inner.origin, origin, origin_length)
    inner.has_default = frame.has_default
    inner.default_ttl = frame.default_ttl
    inner.by_directive = frame.by_directive
    lexer_begin(&inner.lexer, text, length, 1)
    frame.parser.fresh = 1
    status = parse_lines(inner)
    frame.parser.fresh = 1
    free(inner)
    free(text)
    return status


cdef int fail_open(Frame *frame, const char *path) noexcept nogil:
    """The error text of Go's os.Open."""
    cdef char why[160]
    cdef char what[2 * ZONE_PATH_MAX + 256]
    cdef uint32_t length = frame.lexer.token.length
    cdef bint other = length != strlen(path)
    error_text(errno, why, sizeof(why))
    if other:
        snprintf(what, sizeof(what), b"failed to open `%.*s' as `%s': open %s: %s", <int>length, frame.lexer.token.text, path, path, why)
    else:
        snprintf(what, sizeof(what), b"failed to open `%s': open %s: %s", path, path, why)
    return fail(frame, what)

# ---- $GENERATE ----

cdef int parse_generate(Frame *frame) noexcept nogil:
    """$GENERATE RANGE and a record in which $ is replaced by the number."""
    cdef Generator generator
    cdef Token range
    cdef int status
    if frame.generated:
        lexer_next(&frame.lexer)
        return fail(frame, b"nested $GENERATE directive not allowed")
    if lexer_next(&frame.lexer) != LEX_WORD:
        return fail_at(frame, b"expecting $GENERATE value, not this...")
    range = frame.lexer.token
    memset(&generator, 0, sizeof(Generator))
    if generator_range(&generator, range.text, range.length) < 0:
        return fail(frame, generator.failure)
    status = read_model(frame, &generator)
    if status == ZONEFILE_OK:
        status = generate(frame, &generator)
    generator_end(&generator)
    return status


cdef int read_model(Frame *frame, Generator *generator) noexcept nogil:
    """Copies the rest of the line without comments and parentheses."""
    cdef const Token *token = &frame.lexer.token
    cdef LexKind kind
    cdef int status = 0
    while status == 0:
        kind = lexer_next(&frame.lexer)
        if kind == LEX_LINE or kind == LEX_END:
            return ZONEFILE_OK if generator.model_length else fail(frame, b"garbage after $GENERATE range")
        if kind == LEX_BAD:
            return fail(frame, b"bad data in $GENERATE directive")
        if token.blank and generator.model_length:
            status |= generator_add(generator, b" ", 1)
        if kind == LEX_QUOTED:
            status |= generator_add(generator, b'"', 1)
        status |= generator_add(generator, token.text, token.length)
        if kind == LEX_QUOTED:
            status |= generator_add(generator, b'"', 1)
    return ZONEFILE_MEMORY


cdef int generate(Frame *frame, Generator *generator) noexcept nogil:
    cdef Frame *inner = make_frame(frame.parser, frame, frame.path)
    cdef Token *token = &frame.lexer.token
    cdef int status = ZONEFILE_OK
    cdef uint32_t line = 1
    if inner == NULL:
        return ZONEFILE_MEMORY
    inner.depth = frame.depth
    inner.generated = 1
    inner.line = frame.line
    inner.has_default = 1
    inner.default_ttl = GENERATE_TTL
    frame.parser.fresh = 1
    while status == ZONEFILE_OK and generator.at <= generator.stop:
        if generator_line(generator) < 0:
            if generator.failure == NULL:
                status = ZONEFILE_MEMORY
                break
            token.text = generator.model + generator.bad_begin
            token.length = generator.bad_end - generator.bad_begin
            token.column += generator.bad_begin + 1
            status = fail(frame, generator.failure)
            break
        lexer_begin(&inner.lexer, generator.out, generator.used, line)
        status = parse_lines(inner)
        generator.at += generator.step
        line += 1
    frame.parser.fresh = 1
    free(inner)
    return status


# ---- Python ----

class ZoneFileError(ValueError):
    def __init__(self, str file, str what, str token, int line, int column):
        super().__init__(f"{file + ': ' if file else ''}dns: {what}: {token} at line: {line}:{column}")
        self.file = file
        self.line = line
        self.column = column


cdef str quoted(bytes token):
    """As Go's strconv.QuoteToASCII."""
    cdef list out = ['"']
    named = {7: "\\a", 8: "\\b", 12: "\\f", 10: "\\n", 13: "\\r", 9: "\\t", 11: "\\v", 34: '\\"', 92: "\\\\"}
    for character in token.decode("utf-8", "surrogateescape"):
        number = ord(character)
        if number in named:
            out.append(named[number])
        elif 32 <= number < 127:
            out.append(character)
        elif 0xDC80 <= number <= 0xDCFF:
            out.append(f"\\x{number - 0xDC00:02x}")
        elif number < 128:
            out.append(f"\\x{number:02x}")
        elif number < 65536:
            out.append(f"\\u{number:04x}")
        else:
            out.append(f"\\U{number:08x}")
    out.append('"')
    return "".join(out)


cdef object zonefile_error(const ZoneParser *parser):
    path = os.fsdecode(<const char *>parser.path)
    if parser.outcome == ZONEFILE_UNREADABLE:
        return OSError(parser.error_number, os.strerror(parser.error_number), path)
    if parser.outcome == ZONEFILE_MEMORY:
        return MemoryError()
    return ZoneFileError(path, (<const char *>parser.text).decode("utf-8", "backslashreplace"),
                         quoted((<const char *>parser.token)[:parser.token_length]), parser.line, parser.column)


cdef struct Collector:
    void *rows                  # a list, borrowed
    uint64_t count


cdef int collect(void *self, ZoneRecord *record) noexcept with gil:
    try:
        (<list>(<Collector *>self).rows).append((record.owner.wire[:record.owner.length], record.type, record.klass, record.ttl,
                                                record.rdata[:record.rdlength]))
        return 0
    except MemoryError:
        return 1


cdef struct Feeder:
    void *take                  # a function, borrowed
    void *error                 # what it raised, owned; NULL: nothing


cdef int feed_record(void *self, ZoneRecord *record) noexcept with gil:
    cdef Feeder *feeder = <Feeder *>self
    try:
        (<object>feeder.take)(record.owner.wire[:record.owner.length], record.type, record.klass, record.ttl, record.rdata[:record.rdlength])
        return 0
    except BaseException as error:
        Py_INCREF(error)
        feeder.error = <void *>error
        return 1


cdef int count_record(void *self, ZoneRecord *record) noexcept nogil:
    (<Collector *>self).count += 1
    return 0


cdef ZoneParser *begin(str origin) except NULL:
    cdef Name name
    cdef ZoneParser *parser
    wire = name_wire(origin)
    wire_name_copy(&name, wire, <int>len(wire))
    parser = zonefile_begin(&name)
    if parser == NULL:
        raise MemoryError
    return parser


cdef int finish(ZoneParser *parser, int status) except -1:
    if status < 0:
        error = zonefile_error(parser)
        zonefile_end(parser)
        raise error
    zonefile_end(parser)
    if status > 0:
        raise MemoryError
    return 0


cdef int run(ZoneParser *parser, bytes text, str path, ttl, zone_sink take, void *argument) except -2:
    """What zonefile_parse returns. ``ttl``: of records before the first that has one, and before $TTL; None: there is none."""
    cdef bytes place = os.fsencode(path)
    cdef const char *c_text = text
    cdef const char *c_path = place
    cdef size_t length = len(text)
    cdef int status
    if ttl is not None:
        parser.has_ttl = 1
        parser.ttl = ttl
    with nogil:
        status = zonefile_parse(parser, c_text, length, c_path, take, argument)
    return status


def parse(text, str origin=".", str path="", *, ttl=None) -> list:
    cdef bytes octets = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text)
    cdef Collector collector
    cdef ZoneParser *parser = begin(origin)
    rows = []
    collector.rows = <void *>rows
    finish(parser, run(parser, octets, path, ttl, collect, &collector))
    return rows


def feed(bytes text not None, take, str origin=".", str path="", *, ttl=None) -> None:
    cdef Feeder feeder
    cdef ZoneParser *parser = begin(origin)
    feeder.take = <void *>take
    feeder.error = NULL
    cdef int status = run(parser, text, path, ttl, feed_record, &feeder)
    if feeder.error != NULL:
        zonefile_end(parser)
        error = <object>feeder.error
        Py_DECREF(error)
        raise error
    finish(parser, status)


def read(str path, str origin=".") -> list:
    cdef bytes place = os.fsencode(path)
    cdef const char *c_path = place
    cdef Collector collector
    cdef int status
    cdef ZoneParser *parser = begin(origin)
    rows = []
    collector.rows = <void *>rows
    with nogil:
        status = zonefile_read(parser, c_path, collect, &collector)
    finish(parser, status)
    return rows


def count(str path, str origin=".") -> int:
    cdef bytes place = os.fsencode(path)
    cdef const char *c_path = place
    cdef Collector collector
    cdef int status
    cdef ZoneParser *parser = begin(origin)
    collector.count = 0
    with nogil:
        status = zonefile_read(parser, c_path, count_record, &collector)
    finish(parser, status)
    return collector.count
