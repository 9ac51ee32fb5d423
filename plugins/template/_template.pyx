"""The native handler of template: matches, writes the text of records, and reads them as a master file's (fastdns.zonefile.parser)."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdio cimport snprintf
from fastdns.api.query cimport (ANSWERED, CHILD_MUX, ERROR_MAX, NEXT, PARKED, Handler, NativeHandler, Query, Verdict, handler_init, query_answer,
                                query_child, query_fail, query_option, query_park, query_scratch)
from fastdns.api.reply cimport RECORD_OWNED, SECTION_ADDITIONAL, SECTION_ANSWER, SECTION_AUTHORITY, Record, Reply, reply_add, reply_append, reply_copy
from fastdns.api.names cimport NAME_MAX, Name, ZoneList, ZoneName, Zones, wire_name_copy, wire_name_text, zones_hold, zones_match
from fastdns.api.wire cimport FLAG_AA, FLAG_TC, RCODE_SERVFAIL, TYPE_A, TYPE_AAAA, TYPE_CNAME
from fastdns.api.records cimport ZoneParser, ZoneRecord, zonefile_begin, zonefile_parse
from fastdns.api.metrics cimport Metric, label_count, metric_add
from fastdns.api.memory cimport Blocks, blocks_free, blocks_take
from fastdns.api.expression cimport (GROUPS_MAX, VALUE_BOOL, Code, Groups, Output, Pattern, Program, Regex, ValueArena, Span, Value, evaluate, regex_match,
                                     arena_open, set_int, set_text)
from fastdns.plugins.template._fields cimport Data
from fastdns.plugins.template._render cimport Source, Tree, render

from fastdns.protocol.parameters import CLASSES, TYPES

cdef extern from *:
    """
    static __thread void *template_parser;
    #define template_parser_of_thread() (&template_parser)
    """
    void **parser_of_thread "template_parser_of_thread"() noexcept nogil

cdef enum:
    ANY = 255
    TEXT_SIZE = 16384           # of one record's text
    EDE = 15                    # RFC 8914
    RESULTS_MAX = 16            # var lines
    DEFAULT_TTL = 3600

cdef struct Match:
    const Pattern *pattern
    const char *source
    uint32_t source_length
    uint32_t name_count
    Value *names                # owned: pairs of a group's name and number

cdef struct Text:               # a template of a section
    const Tree *tree
    uint8_t section
    uint32_t number             # in the whole block, for metrics

cdef struct Template:
    uint16_t klass
    uint16_t type
    uint16_t rcode
    uint8_t has_error
    uint16_t error_length
    const uint8_t *error        # the data of an EDE option: code and text
    const Zones *zones
    const char **zone_texts     # of zones.names, in their order
    const Zones *fall           # NULL: never
    uint32_t match_count
    Match *matches
    uint32_t variable_count
    const Program **variables
    Value *variable_names
    uint32_t expression_count
    const Program **expressions
    uint32_t text_count
    Text *texts
    uint32_t *matched           # first cells by server label and zone: see `cells`
    uint32_t *broken            # likewise, two for each text: it could not be written; it is no record

cdef struct State:
    uint32_t count
    Template *templates
    uint32_t labels             # servers are numbered below this

cdef struct Work:               # a query's scratch
    uint32_t next               # record of the reply to look at

cdef uint8_t class_places[256]
cdef uint16_t type_places[65536]
TYPE_NAMES = ("", *[name for number, name in TYPES.items() if number])
CLASS_NAMES = ("", *CLASSES.values())
cdef uint32_t TYPE_COUNT = len(TYPE_NAMES)
cdef uint32_t CLASS_COUNT = len(CLASS_NAMES)
for _place, _number in enumerate((number for number in TYPES if number), 1):
    type_places[<uint32_t>_number] = _place
for _place, _number in enumerate(CLASSES, 1):
    class_places[<uint32_t>_number] = _place


cdef inline uint32_t cell_offset(const Data *data) noexcept nogil:
    return (class_places[data.klass] if data.klass < 256 else 0) * TYPE_COUNT + type_places[data.type]


# ---- matching ----

cdef Verdict template_query(Handler *self, Query *q) noexcept nogil:
    cdef const State *state = <const State *>self.state
    cdef const Template *template = state.templates
    cdef const ZoneName *zone
    cdef Data data
    cdef char name[1100]
    cdef uint32_t i
    cdef Verdict verdict
    data.name_length = 0
    for i in range(state.count):
        zone = zones_match(template.zones, q.name)
        if zone != NULL and (template.klass == ANY or q.qclass == ANY or q.qclass == template.klass) and (
                template.type == ANY or q.qtype == ANY or q.qtype == template.type):
            if data.name_length == 0:
                data.q = q
                data.name = name
                data.name_length = <uint32_t>wire_name_text(q.name.lower, name)
            verdict = try_template(self, state, template, zone, &data)
            if verdict != NEXT:
                return verdict
        template += 1
    return NEXT


cdef Verdict no_match(const Template *template, Query *q) noexcept nogil:
    if template.fall != NULL and zones_hold(template.fall, q.name):
        return NEXT
    return query_fail(q, RCODE_SERVFAIL, NULL)


cdef Verdict try_template(Handler *self, const State *state, const Template *template, const ZoneName *zone, Data *data) noexcept nogil:
    """NEXT: try the following one."""
    cdef Query *q = data.q
    cdef Span spans[GROUPS_MAX]
    cdef Value results[RESULTS_MAX]
    cdef Groups groups
    cdef ValueArena arena
    cdef uint32_t i, place = <uint32_t>(zone - template.zones.names)
    cdef const Match *match = template.matches
    for i in range(template.match_count):
        if regex_match(match.pattern, data.name, data.name_length, spans, min(match.pattern.groups, <uint32_t>GROUPS_MAX)):
            break
        match += 1
    else:
        return no_match(template, q)
    groups.text, groups.spans, groups.count = data.name, spans, min(match.pattern.groups, <uint32_t>GROUPS_MAX)
    groups.names, groups.name_count = match.names, match.name_count
    data.groups = &groups
    data.regex, data.regex_length = match.source, match.source_length
    data.zone, data.zone_length = template.zone_texts[place], length_of(template.zone_texts[place])
    data.klass = q.qclass if q.qclass != ANY else template.klass
    data.type = q.qtype if q.qtype != ANY else template.type
    data.variables, data.variable_names, data.variable_count = results, template.variable_names, template.variable_count
    if not arena_open(&arena):
        return query_fail(q, RCODE_SERVFAIL, b"plugin/template: no memory")
    for i in range(template.variable_count):
        if evaluate(template.variables[i], q, &arena, results, &groups, &results[i]) < 0:
            return query_fail(q, RCODE_SERVFAIL, NULL)
    for i in range(template.expression_count):
        if evaluate(template.expressions[i], q, &arena, results, &groups, &results[RESULTS_MAX - 1]) < 0:
            return query_fail(q, RCODE_SERVFAIL, NULL)
        if results[RESULTS_MAX - 1].kind != VALUE_BOOL or results[RESULTS_MAX - 1].number == 0:
            return no_match(template, q)
    metric_add(template.matched[q.server.label * template.zones.count + place] + cell_offset(data), q.worker.id, 1)
    if template.rcode == RCODE_SERVFAIL:
        return query_fail(q, RCODE_SERVFAIL, NULL)
    return write_answer(self, template, place, data, &arena)


cdef uint32_t length_of(const char *text) noexcept nogil:
    cdef uint32_t n = 0
    while text[n]:
        n += 1
    return n


# ---- records ----

cdef struct Sink:
    Reply *reply
    int section
    uint32_t records


cdef int take_record(void *self, ZoneRecord *record) noexcept nogil:
    """The first record of a text, copied into the query's memory; there is no second."""
    cdef Sink *sink = <Sink *>self
    cdef Record *made
    cdef uint8_t *owner = reply_copy(sink.reply, record.owner.wire, record.owner.length)
    cdef uint8_t *rdata = reply_copy(sink.reply, record.rdata, record.rdlength)
    if owner == NULL or rdata == NULL:
        return 2
    made = reply_add(sink.reply, sink.section)
    if made == NULL:
        return 2
    made.owner, made.owner_length = owner, record.owner.length
    made.rdata, made.rdlength = rdata, record.rdlength
    made.type, made.klass, made.ttl = record.type, record.klass, record.ttl
    made.flags = RECORD_OWNED
    return 1


cdef ZoneParser *parser() noexcept nogil:
    """The thread's, made when it is first wanted."""
    cdef void **own = parser_of_thread()
    cdef Name root
    if own[0] == NULL:
        wire_name_copy(&root, <const uint8_t *>b"\0", 1)
        own[0] = zonefile_begin(&root)
        if own[0] != NULL:
            (<ZoneParser *>own[0]).has_ttl = 1
            (<ZoneParser *>own[0]).ttl = DEFAULT_TTL
    return <ZoneParser *>own[0]


cdef bint has_directive(const char *text, uint32_t length) noexcept nogil:
    """A line that begins with a dollar sign: what a name holds must not include files."""
    cdef uint32_t i
    cdef bint fresh = True
    for i in range(length):
        if text[i] == c'$' and fresh:
            return True
        fresh = text[i] == c'\n' or fresh and (text[i] == c' ' or text[i] == c'\t' or text[i] == c'\r')
    return False


cdef int read_record(Query *q, int section, const char *text, uint32_t length, char *error) noexcept nogil:
    """-1 with the reason in error: the text is no record."""
    cdef ZoneParser *own = parser()
    cdef Sink sink
    cdef int status
    sink.reply, sink.section = &q.reply, section
    if own == NULL:
        snprintf(error, ERROR_MAX, b"plugin/template: no memory")
        return -1
    if has_directive(text, length):
        snprintf(error, ERROR_MAX, b"dns: a record begins with a directive")
        return -1
    status = zonefile_parse(own, text, length, b"", take_record, &sink)
    if status < 0:
        snprintf(error, ERROR_MAX, b"dns: %.80s: \"%.*s\" at line: %u:%u", own.text, <int>min(own.token_length, <uint32_t>64), own.token, own.line, own.column)
        return -1
    if status == 2:
        snprintf(error, ERROR_MAX, b"plugin/template: no arena for another record")
        return -1
    return 0


cdef Verdict write_answer(Handler *self, const Template *template, uint32_t place, const Data *data, ValueArena *arena) noexcept nogil:
    cdef Query *q = data.q
    cdef Work *work = <Work *>query_scratch(self, q)
    cdef char written[TEXT_SIZE]
    cdef char error[ERROR_MAX]
    cdef Output output
    cdef const Text *text = template.texts
    cdef uint32_t i, used = arena.used, broken
    query_answer(q, template.rcode, FLAG_AA)
    for i in range(template.text_count):
        arena.used = used
        output.arena, output.text, output.length, output.limit, output.full = arena, written, 0, TEXT_SIZE, 0
        broken = 2 * ((q.server.label * template.zones.count + place) * template.text_count + i)
        if render(text.tree, data, arena, &output, error) < 0:
            metric_add(template.broken[broken] + cell_offset(data), q.worker.id, 1)
            return give_up(q, error)
        if read_record(q, text.section, written, output.length, error) < 0:
            metric_add(template.broken[broken + 1] + cell_offset(data), q.worker.id, 1)
            return give_up(q, error)
        text += 1
    if template.has_error:
        query_option(q, EDE, template.error, template.error_length)
    if q.qtype == TYPE_A or q.qtype == TYPE_AAAA:
        work.next = 0
        return follow(self, q, work)
    return ANSWERED


cdef Verdict give_up(Query *q, const char *error) noexcept nogil:
    q.reply.count = 0
    q.reply.edns.present = 0
    return query_fail(q, RCODE_SERVFAIL, error)


# ---- targets of aliases ----

cdef Verdict follow(Handler *self, Query *q, Work *work) noexcept nogil:
    """Looks up the target of each alias in the answer, through the whole server; one that cannot be looked up stays alone."""
    cdef Name name
    cdef const Record *record
    while work.next < q.reply.count:
        record = &q.reply.records[work.next]
        work.next += 1
        if record.section == SECTION_ANSWER and record.type == TYPE_CNAME and record.rdlength <= NAME_MAX:
            wire_name_copy(&name, record.rdata, record.rdlength)
            if query_park(q, 0) == 0 and query_child(self, q, CHILD_MUX, &name, q.qtype) == 0:
                return PARKED
    return ANSWERED


cdef void turn(Record *records, uint32_t first, uint32_t last) noexcept nogil:
    cdef Record record
    while first + 1 < last:
        last -= 1
        record = records[first]
        records[first] = records[last]
        records[last] = record
        first += 1


cdef Verdict template_resume(Handler *self, Query *q) noexcept nogil:
    """What the target has comes right behind its alias."""
    cdef Work *work = <Work *>query_scratch(self, q)
    cdef Query *child = q.child
    cdef uint32_t before = q.reply.count
    if child != NULL and child.reply.written:
        reply_append(&q.reply, &child.reply, SECTION_ANSWER)
        turn(q.reply.records, work.next, before)
        turn(q.reply.records, before, q.reply.count)
        turn(q.reply.records, work.next, q.reply.count)
        work.next += q.reply.count - before
        q.reply.flags = (q.reply.flags & ~FLAG_TC) | (child.reply.flags & FLAG_TC)
    return follow(self, q, work)


# ---- set-up ----

cdef Metric MATCHES = Metric("coredns_template_matches_total", "Counter of template regex matches.", "counter",
                             ("server", "zone", "view", "class", "type"))
cdef Metric TEMPLATE_FAILURES = Metric("coredns_template_template_failures_total", "Counter of go template failures.", "counter",
                                       ("server", "zone", "view", "class", "type", "section", "template"))
cdef Metric RR_FAILURES = Metric("coredns_template_rr_failures_total", "Counter of mis-templated RRs.", "counter",
                                 ("server", "zone", "view", "class", "type", "section", "template"))

SECTIONS = {"answer": SECTION_ANSWER, "authority": SECTION_AUTHORITY, "additional": SECTION_ADDITIONAL}


cdef class TemplateHandler(NativeHandler):
    cdef State state
    cdef list kept
    cdef Blocks blocks
    cdef list givens

    def __cinit__(self, *args):
        handler_init(self)
        self.kept = []
        self.handler.query = template_query
        self.handler.resume = template_resume
        self.handler.scratch_size = sizeof(Work)
        self.handler.state = &self.state

    def __init__(self, list templates):
        super().__init__("template")
        self.givens = templates
        self.state.templates = <Template *>self.take(len(templates) * sizeof(Template))
        for given in templates:
            self.add_template(&self.state.templates[self.state.count], given)
            self.state.count += 1

    def __dealloc__(self):
        blocks_free(&self.blocks)

    def resolve(self, config):
        for given in self.givens:
            for _, source in given.texts:
                source.resolve(config)
            for code in (*[code for _, code in given.variables], *given.expressions):
                code.resolve(config)

    cdef void *take(self, size_t size) except NULL:
        cdef void *block = blocks_take(&self.blocks, size)
        if block == NULL:
            raise MemoryError
        return block

    cdef const char *keep(self, str text) except NULL:
        octets = text.encode("utf-8", "surrogateescape")
        self.kept.append(octets)
        return <const char *><bytes>octets

    cdef int add_template(self, Template *made, given) except -1:
        cdef ZoneList zones = ZoneList(given.zones)
        cdef ZoneList fall
        cdef Code code
        cdef Source source
        cdef uint32_t i
        self.kept.append(zones)
        made.klass, made.type, made.rcode = given.klass, given.type, given.rcode
        made.zones = &zones.zones
        made.zone_texts = <const char **>self.take(made.zones.count * sizeof(char *))
        for i in range(made.zones.count):
            made.zone_texts[i] = self.keep(zone_text(&made.zones.names[i]))
        if given.fall is not None:
            fall = ZoneList(given.fall)
            self.kept.append(fall)
            made.fall = &fall.zones
        if given.error is not None:
            error = given.error[0].to_bytes(2, "big") + given.error[1].encode("utf-8", "surrogateescape")
            self.kept.append(error)
            made.has_error = 1
            made.error = <const uint8_t *><const char *><bytes>error
            made.error_length = <uint16_t>len(error)
        self.add_matches(made, given.matches)
        made.variables = <const Program **>self.take(len(given.variables) * sizeof(Program *))
        made.variable_names = <Value *>self.take(len(given.variables) * sizeof(Value))
        for name, code in given.variables:
            self.kept.append(code)
            made.variables[made.variable_count] = &code.program
            set_text(&made.variable_names[made.variable_count], self.keep(name), <uint32_t>len(name))
            made.variable_count += 1
        made.expressions = <const Program **>self.take(len(given.expressions) * sizeof(Program *))
        for code in given.expressions:
            self.kept.append(code)
            made.expressions[made.expression_count] = &code.program
            made.expression_count += 1
        made.texts = <Text *>self.take(len(given.texts) * sizeof(Text))
        for section, source in given.texts:
            self.kept.append(source)
            made.texts[made.text_count].tree = &source.tree
            made.texts[made.text_count].section = SECTIONS[section]
            made.text_count += 1
        return 0

    cdef int add_matches(self, Template *made, matches) except -1:
        cdef Regex pattern
        cdef Match *match
        made.matches = <Match *>self.take(len(matches) * sizeof(Match))
        for pattern in matches:
            self.kept.append(pattern)
            match = &made.matches[made.match_count]
            match.pattern = &pattern.pattern
            match.source = self.keep(pattern.source)
            match.source_length = <uint32_t>len(<bytes>self.kept[len(self.kept) - 1])
            match.names = <Value *>self.take(len(pattern.names) * 2 * sizeof(Value))
            for name, number in pattern.names.items():
                set_text(&match.names[2 * match.name_count], self.keep(name), <uint32_t>len(<bytes>self.kept[len(self.kept) - 1]))
                set_int(&match.names[2 * match.name_count + 1], number)
                match.name_count += 1
            made.match_count += 1
        return 0

    cpdef attach(self, list servers, str view):
        """Metric cells, for each server, zone and template."""
        cdef Template *made
        cdef uint32_t number, zone, text, count = label_count(servers)
        for number in range(self.state.count):
            made = &self.state.templates[number]
            made.matched = <uint32_t *>self.take(count * made.zones.count * sizeof(uint32_t))
            made.broken = <uint32_t *>self.take(count * made.zones.count * (2 * made.text_count + 1) * sizeof(uint32_t))
            for label, address in servers:
                for zone in range(made.zones.count):
                    at = <uint32_t>label * made.zones.count + zone
                    place = (address, made.zone_texts[zone].decode(), view, CLASS_NAMES, TYPE_NAMES)
                    made.matched[<uint32_t>at] = MATCHES.table(place)
                    for text in range(made.text_count):
                        section, source = self.givens[number].texts[text]
                        broken = 2 * (at * made.text_count + text)
                        made.broken[<uint32_t>broken] = TEMPLATE_FAILURES.table((*place, section, source.text))
                        made.broken[<uint32_t>broken + 1] = RR_FAILURES.table((*place, section, source.text))


cdef str zone_text(const ZoneName *zone):
    cdef char text[1100]
    cdef int length = wire_name_text(zone.wire, text)
    return text[:length].decode("ascii")
