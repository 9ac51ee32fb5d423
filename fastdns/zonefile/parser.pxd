"""Master files (RFC 1035 5): text -> records as wire, without the GIL. Behaviour and texts of errors are those of CoreDNS's parser.

    parser = zonefile_begin(origin wire)        # NULL: no memory
    status = zonefile_read(parser, path, sink, self)
    raise zonefile_error(parser)                # when status < 0
    zonefile_end(parser)

$ORIGIN, $TTL, $INCLUDE (relative to the file that includes, 7 deep) and $GENERATE (65,536 steps) are followed. Names outside the origin are
not refused: the sink may. Any thread; one parser a thread.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from fastdns._wire cimport Name

cdef struct ZoneRecord:         # borrowed until the sink returns
    const Name *owner           # indexed: case as written, lower case, hashes
    uint8_t same_owner          # as the record before
    uint16_t type
    uint16_t klass
    uint16_t rdlength
    uint32_t ttl
    uint8_t *rdata              # wire form, names uncompressed; may be changed in place (rdata_lower)

cdef enum:                      # results
    ZONEFILE_OK = 0
    ZONEFILE_FAILED = -1        # zonefile_error says why
    ZONEFILE_UNREADABLE = -2    # the file itself (not an $INCLUDE) cannot be opened or read; zonefile_error is its OSError
    ZONEFILE_MEMORY = -3
    # above 0: what the sink said

# 0 to go on; anything above 0 ends the parsing and is its result.
ctypedef int (*zone_sink)(void *self, ZoneRecord *record) noexcept nogil

cdef enum:
    ZONE_PATH_MAX = 4096
    ZONE_TOKEN_MAX = 512        # octets of a token that an error shows

cdef struct ZoneParser:
    Name origin
    uint8_t has_ttl             # may be set: records without one have `ttl` until the file says otherwise
    uint32_t ttl
    # ---- the parser's own ----
    zone_sink sink
    void *self
    uint8_t *rdata
    void *outermost             # the Frame of a text: kept, so that parsing a text without directives allocates nothing
    uint8_t fresh               # the next record's owner is not that of the one before
    int outcome
    int error_number
    uint32_t line
    uint32_t column
    uint32_t token_length
    char token[ZONE_TOKEN_MAX]
    char path[ZONE_PATH_MAX]
    char text[2 * ZONE_PATH_MAX + 256]

cdef ZoneParser *zonefile_begin(const Name *origin) noexcept nogil
cdef int zonefile_read(ZoneParser *parser, const char *path, zone_sink sink, void *self) noexcept nogil
# The same with the text given; path is for messages and for what is included. The text is borrowed until this returns.
cdef int zonefile_parse(ZoneParser *parser, const char *text, size_t length, const char *path, zone_sink sink, void *self) noexcept nogil
# ZoneFileError, OSError or MemoryError, of what failed last.
cdef object zonefile_error(const ZoneParser *parser)
cdef void zonefile_end(ZoneParser *parser) noexcept nogil
