"""The native handler of rewrite: a query goes down changed, and its answer comes back as if it had not been.

The name is matched in presentation form, as CoreDNS does, so that rules mean the same. What changes stays in the query: its second name, its options, and
a list of what is to be done to the answer.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy, memset
from fastdns.api.query cimport ERROR_MAX, NEXT, UP, Explanation, Handler, NativeHandler, Query, Verdict, handler_init, query_fail, query_scratch
from fastdns.api.reply cimport finish_echo, reply_copy
from fastdns.api.text cimport Text, text_type
from fastdns.api.names cimport NAME_MAX, Name, text_read_name, wire_name_copy, wire_name_text
from fastdns.api.wire cimport RCODE_SERVFAIL
from fastdns.api.metadata cimport LabelHandle
from fastdns.api.memory cimport Blocks, blocks_free, blocks_take
from fastdns.api.expression cimport GROUPS_MAX, Regex, Span
import re

from fastdns.walk.metadata import resolve
from fastdns._wire import name_wire
from fastdns.plugins.rewrite._options cimport options_apply
from fastdns.plugins.rewrite._revert cimport revert_reply, revert_resume
from fastdns.plugins.rewrite._work cimport REVERT_ANSWER, REVERT_CNAME, REVERT_NAME, REVERT_RCODE, REVERT_SUFFIX, REVERT_TTL, Revert, Work, revert_add
from fastdns.plugins.rewrite._rules cimport (ACTION_APPEND, ACTION_REPLACE, ACTION_SET, ACTION_UNSET, FIELD_CLASS, FIELD_CNAME, FIELD_EDNS0,
                                             FIELD_NAME, FIELD_RCODE, FIELD_TTL, FIELD_TYPE, MATCH_EXACT, MATCH_PREFIX, MATCH_REGEX, MATCH_SUBSTRING,
                                             MATCH_SUFFIX, SOURCE_CLIENT_IP, SOURCE_CLIENT_PORT, SOURCE_DATA, SOURCE_LABEL, SOURCE_PROTOCOL,
                                             SOURCE_QNAME, SOURCE_QTYPE, SOURCE_SERVER_IP, SOURCE_SERVER_PORT, SOURCE_SUBNET, Answer, Part, Plain,
                                             Rule, Rules, TEXT_MAX, Template, plain_question, rule_apply, rule_apply_name, rule_matches, rule_matches_name,
                                             template_fill_labels)

cdef enum RewriteResult:
    IGNORED
    DONE
    INVALID                     # the new name is none
    FULL                        # no memory is left in the query


# ---- down ----

cdef Verdict rewrite_query(Handler *self, Query *q) noexcept nogil:
    cdef const Rules *rules = <const Rules *>self.state
    cdef Work *work = <Work *>query_scratch(self, q)
    cdef uint32_t i
    cdef RewriteResult outcome
    cdef Plain plain
    cdef const Rule *rule = rules.rules
    memset(work, 0, sizeof(Work))
    plain.length = 0
    for i in range(rules.count):
        outcome = apply(q, work, rule, &plain)
        if outcome == DONE:
            work.applied = <uint16_t>(i + 1)
            if rule.stop:
                work.active = 1
                break
        elif outcome != IGNORED:
            return give_up(q, work, outcome, &plain)
        rule += 1
    if work.newest != NULL:
        work.active = 1
    if work.renamed:
        q.name = &q.second_name
    return NEXT


cdef inline const Name *name_now(const Query *q, const Work *work) noexcept nogil:
    return &q.second_name if work.renamed else q.name


cdef inline void fill_plain(const Query *q, const Work *work, Plain *plain) noexcept nogil:
    """The name's presentation form, made when the first rule wants it; a length of 0 says that it is not there."""
    if plain.length == 0:
        plain_question(name_now(q, work), plain)


cdef inline RewriteResult apply(Query *q, Work *work, const Rule *rule, Plain *plain) noexcept nogil:
    cdef Span spans[GROUPS_MAX]
    if rule.field != FIELD_NAME:
        if rule.field == FIELD_TYPE:
            if q.qtype != rule.first:
                return IGNORED
            q.qtype = <uint16_t>rule.second
            return DONE
        if rule.field == FIELD_CLASS:
            if q.qclass != rule.first:
                return IGNORED
            q.qclass = <uint16_t>rule.second
            return DONE
        if rule.field == FIELD_EDNS0:
            return apply_option(q, work, rule, plain)
        if rule.field == FIELD_CNAME:               # matches every query; what counts is the answer
            return FULL if revert_add(q, work, REVERT_CNAME, rule) == NULL else DONE
    if rule.aligned:
        if not rule_matches_name(rule, name_now(q, work)):
            return IGNORED
    else:
        fill_plain(q, work, plain)
        if not rule_matches(rule, plain.text, plain.length, spans):
            return IGNORED
    if rule.field == FIELD_TTL:
        return FULL if revert_add(q, work, REVERT_TTL, rule) == NULL else DONE
    if rule.field == FIELD_RCODE:
        return FULL if revert_add(q, work, REVERT_RCODE, rule) == NULL else DONE
    return rename(q, work, rule, plain, spans)


cdef RewriteResult apply_option(Query *q, Work *work, const Rule *rule, Plain *plain) noexcept nogil:
    cdef Plain question
    if rule.option.source == SOURCE_QNAME and not work.renamed:     # in the client's letters
        question.length = <uint32_t>wire_name_text(q.name.wire, question.text)
        return DONE if options_apply(q, work, rule, &question) else IGNORED
    fill_plain(q, work, plain)
    return DONE if options_apply(q, work, rule, plain) else IGNORED


cdef enum:
    UNSET_LABEL = -2            # a label of the rule has no value


cdef int make_name(Query *q, const Work *work, const Rule *rule, Plain *plain, const Span *spans, uint8_t *out) noexcept nogil:
    """The new name in wire form; -1: it is none, and `plain` tells it; or UNSET_LABEL."""
    cdef Plain made
    cdef int length = -1, filled
    if rule.aligned:
        length = rule_apply_name(rule, name_now(q, work), out)
        if length >= 0:
            return length
        fill_plain(q, work, plain)
    if rule.labelled:
        filled = template_fill_labels(&rule.template, q, plain.text, spans, &made)
        if filled < 0:
            return UNSET_LABEL
    else:
        filled = rule_apply(rule, plain.text, plain.length, spans, &made)
    if not filled:
        made.length = 0
    length = text_read_name(made.text, made.length, out)
    if length < 0:
        memcpy(plain.text, made.text, made.length)
        plain.length = made.length
    return length


cdef RewriteResult rename(Query *q, Work *work, const Rule *rule, Plain *plain, const Span *spans) noexcept nogil:
    """The query gets its new name."""
    cdef uint8_t wire[NAME_MAX + 17]
    cdef uint8_t former_length = name_now(q, work).length
    cdef const uint8_t *former
    cdef Revert *revert
    cdef uint32_t i
    cdef int length = make_name(q, work, rule, plain, spans, wire)
    if length < 0:
        return IGNORED if length == UNSET_LABEL else INVALID
    if rule.automatic and rule.match != MATCH_SUFFIX:
        # The name before: the client's stays where it is, one made by a rule is overwritten.
        former = &q.name.lower[0]
        if work.renamed:
            former = reply_copy(&q.reply, q.second_name.lower, former_length)
        revert = revert_add(q, work, REVERT_NAME, rule)
        if revert == NULL or former == NULL:
            return FULL
        revert.to, revert.to_length = former, former_length
        revert.from_length = <uint8_t>length
        revert.from_ = reply_copy(&q.reply, wire, <uint32_t>length)
        if revert.from_ == NULL:
            return FULL
    elif rule.automatic:
        if revert_add(q, work, REVERT_SUFFIX, rule) == NULL:
            return FULL
    for i in range(rule.answer_count):
        revert = revert_add(q, work, REVERT_ANSWER, rule)
        if revert == NULL:
            return FULL
        revert.answer = &rule.answers[i]
    wire_name_copy(&q.second_name, wire, length)
    work.renamed = 1
    plain.length = 0
    return DONE


cdef Verdict give_up(Query *q, const Work *work, RewriteResult outcome, const Plain *plain) noexcept nogil:
    """Nothing is asked; the question is as it came. Its OPT is as the rules have made it, as in CoreDNS."""
    cdef char error[ERROR_MAX]
    q.qtype = q.message.qtype
    q.qclass = q.message.qclass
    if work.options:
        q.message.edns = q.edns
    if outcome == FULL:
        return query_fail(q, RCODE_SERVFAIL, b"plugin/rewrite: no memory for another rule")
    snprintf(error, ERROR_MAX, b"invalid name after rewrite: %.*s", <int>plain.length, plain.text)
    return query_fail(q, RCODE_SERVFAIL, error)


# ---- up ----

cdef Verdict rewrite_reply(Handler *self, Query *q) noexcept nogil:
    cdef Work *work = <Work *>query_scratch(self, q)
    if work.newest == NULL and not work.active and not work.renamed and not work.options:
        return UP
    return revert_reply(self, q, work)


cdef Verdict rewrite_resume(Handler *self, Query *q) noexcept nogil:
    return revert_resume(self, q, <Work *>query_scratch(self, q))


cdef void rewrite_explain(Handler *self, Query *q, Explanation *out) noexcept nogil:
    """On the way down: the question as it is now, and the rule that made it so."""
    cdef const Work *work = <const Work *>query_scratch(self, q)
    cdef char name[TEXT_MAX]
    cdef char kind[32]
    cdef Text text
    if work.applied == 0 or q.reply.written or q.reply.rcode:
        return
    name[wire_name_text(q.name.wire, name)] = 0
    text.out, text.used, text.capacity, text.full = kind, 0, sizeof(kind) - 1, 0
    text_type(&text, q.qtype)
    kind[text.used] = 0
    snprintf(out.note, sizeof(out.note), b"to %.200s %s by %s", name, kind, (<const Rules *>self.state).rules[work.applied - 1].place)


cdef void rewrite_done(Handler *self, Query *q) noexcept nogil:
    """Those who tell of errors tell the name that was asked for below, as CoreDNS does."""
    if (<Work *>query_scratch(self, q)).renamed:
        q.name = &q.second_name


# ---- set-up ----

FIELDS = {
    "name": FIELD_NAME, "type": FIELD_TYPE, "class": FIELD_CLASS, "ttl": FIELD_TTL, "rcode": FIELD_RCODE, "cname": FIELD_CNAME, "edns0": FIELD_EDNS0,
}
MATCHES = {
    "": MATCH_EXACT, "exact": MATCH_EXACT, "prefix": MATCH_PREFIX, "suffix": MATCH_SUFFIX, "substring": MATCH_SUBSTRING, "regex": MATCH_REGEX,
}
ACTIONS = {"set": ACTION_SET, "append": ACTION_APPEND, "replace": ACTION_REPLACE, "unset": ACTION_UNSET}
SOURCES = {
    "": SOURCE_DATA, "qname": SOURCE_QNAME, "qtype": SOURCE_QTYPE, "client_ip": SOURCE_CLIENT_IP, "server_ip": SOURCE_SERVER_IP,
    "client_port": SOURCE_CLIENT_PORT, "server_port": SOURCE_SERVER_PORT, "protocol": SOURCE_PROTOCOL,
}
#: Options that the Go library has types of their own for: rules of `local` do not find them.
KNOWN_OPTIONS = frozenset((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 18, 19))


cdef class RewriteHandler(NativeHandler):
    cdef Rules rules
    cdef list kept              # bytes, patterns and labels that rules borrow from
    cdef Blocks blocks
    cdef readonly tuple subnet_bits     # of the client's IPv4 and IPv6 address, that rules tell upstreams; *cache* keeps replies apart by them
    cdef list variables         # (number of the rule, part of its template or None: of its option, label of metadata)

    def __cinit__(self, *args):
        handler_init(self)
        self.kept = []
        self.subnet_bits = (0, 0)
        self.variables = []
        self.handler.query = rewrite_query
        self.handler.reply = rewrite_reply
        self.handler.resume = rewrite_resume
        self.handler.done = rewrite_done
        self.handler.explain = rewrite_explain
        self.handler.scratch_size = sizeof(Work)
        self.handler.state = &self.rules

    def __init__(self, str name, list rules):
        super().__init__(name)
        self.rules.rules = <Rule *>self.take(len(rules) * sizeof(Rule))
        for rule in rules:
            self.add_rule(&self.rules.rules[self.rules.count], rule)
            self.rules.count += 1

    def __dealloc__(self):
        blocks_free(&self.blocks)

    def resolve(self, config):
        """Looks the labels of metadata up that rules read; before the chain is published."""
        cdef LabelHandle handle
        cdef Rule *rule
        for number, part, label in self.variables:
            handle = resolve(config, label)
            self.kept.append(handle)
            rule = &self.rules.rules[<uint32_t>number]
            if part is None:
                rule.option.label = &handle.label
            else:
                rule.template.parts[<uint32_t>part].label = &handle.label

    cdef void *take(self, size_t size) except NULL:
        cdef void *block = blocks_take(&self.blocks, size)
        if block == NULL:
            raise MemoryError
        return block

    cdef int put(self, bytes text, const char **out, uint32_t *length) except -1:
        self.kept.append(text)
        out[0] = text
        length[0] = <uint32_t>len(text)
        return 0

    cdef int add_rule(self, Rule *rule, given) except -1:
        rule.field = FIELDS[given.field]
        rule.match = MATCHES[given.match]
        rule.stop = given.stop
        rule.automatic = given.auto
        rule.first, rule.second = given.numbers
        self.kept.append(octets(given.place) + b"\0")
        rule.place = <const char *><bytes>self.kept[len(self.kept) - 1]
        self.put(octets(given.source), &rule.source.text, &rule.source.length)
        self.put(octets(given.to), &rule.to.text, &rule.to.length)
        self.align(rule, given.source, given.to)
        if given.pattern is not None:
            self.kept.append(given.pattern)
            rule.pattern = &(<Regex?>given.pattern).pattern
            if given.parts:
                self.add_parts(rule, given.parts)
            elif given.to:
                self.add_template(&rule.template, given.to, rule.pattern.groups)
        rule.answers = <Answer *>self.take(len(given.answers) * sizeof(Answer))
        for answer in given.answers:
            self.kept.append(answer.pattern)
            rule.answers[rule.answer_count].value = answer.what == "value"
            rule.answers[rule.answer_count].pattern = &(<Regex?>answer.pattern).pattern
            self.add_template(&rule.answers[rule.answer_count].to, answer.to, rule.answers[rule.answer_count].pattern.groups)
            rule.answer_count += 1
        if given.option is not None:
            self.add_option(rule, given.option)
        return 0

    cdef int align(self, Rule *rule, str source, str to) except -1:
        """Where source and target are whole labels, their wire forms take the place of texts."""
        cdef Name name
        cdef bytes from_wire, to_wire
        renames = rule.field == FIELD_NAME
        if rule.field not in (FIELD_NAME, FIELD_TTL, FIELD_RCODE) or rule.match in (MATCH_REGEX, MATCH_SUBSTRING) or "\\" in source + to:
            return 0
        if rule.match == MATCH_SUFFIX:
            if not source.startswith(".") or renames and not to.startswith("."):
                return 0
            source, to = source[1:] or ".", to[1:] or "."
        try:
            from_wire, to_wire = name_wire(source), name_wire(to)
        except ValueError:
            return 0
        wire_name_copy(&name, from_wire, <int>len(from_wire))
        memcpy(rule.from_wire, name.lower, name.length)
        rule.hash = name.hash[0]
        rule.from_labels = name.labels
        if rule.match == MATCH_PREFIX:
            if name.labels == 0 or renames and to_wire == b"\0":
                return 0
            from_wire, to_wire = from_wire[: len(from_wire) - 1], to_wire[: len(to_wire) - 1]
        memcpy(rule.to_wire, <const uint8_t *>to_wire, len(to_wire))
        rule.from_length = <uint8_t>len(from_wire)
        rule.to_length = <uint8_t>len(to_wire)
        rule.aligned = 1
        return 0

    cdef int add_template(self, Template *template, str to, uint32_t groups) except -1:
        """``{0}`` and so on become groups; the number of one that the expression has not stays as it is."""
        parts = re.split("\\{(" + "|".join(map(str, range(min(groups, <uint32_t>GROUPS_MAX)))) + ")\\}", to)
        template.parts = <Part *>self.take((len(parts) // 2 + 1) * sizeof(Part))
        for at in range(0, len(parts), 2):
            self.put(octets(parts[at]), &template.parts[template.count].literal.text, &template.parts[template.count].literal.length)
            template.parts[template.count].group = int(parts[at + 1]) if at + 1 < len(parts) else -1
            template.parts[template.count].label = NULL
            template.count += 1
        return 0

    cdef int add_parts(self, Rule *rule, tuple parts) except -1:
        """A template with labels, which `resolve` looks up."""
        cdef Part *part
        rule.labelled = 1
        rule.template.parts = <Part *>self.take(len(parts) * sizeof(Part))
        for given in parts:
            part = &rule.template.parts[rule.template.count]
            self.put(octets(given.literal), &part.literal.text, &part.literal.length)
            part.group = given.group
            part.label = &UNSET.label if given.label else NULL
            if given.label:
                self.variables.append((self.rules.count, rule.template.count, given.label))
            rule.template.count += 1
        return 0

    cdef int add_option(self, Rule *rule, given) except -1:
        rule.option.action = ACTIONS[given.action]
        rule.option.revert = given.revert
        rule.option.code = <uint16_t>given.code
        rule.option.local = given.kind != "local" or given.code not in KNOWN_OPTIONS
        rule.option.duplicates = given.kind == "nsid" or given.kind == "local" and not given.variable
        rule.option.bits[0], rule.option.bits[1] = given.bits
        self.put(given.data, &rule.option.data.text, &rule.option.data.length)
        rule.option.source = SOURCE_SUBNET if given.kind == "subnet" else SOURCES.get(given.variable, SOURCE_LABEL)
        if rule.option.source == SOURCE_LABEL:
            self.variables.append((self.rules.count, None, given.variable))
            self.kept.append(UNSET)
            rule.option.label = &UNSET.label
        if given.kind == "subnet" and given.action != "unset":
            self.subnet_bits = max(self.subnet_bits[0], given.bits[0]), max(self.subnet_bits[1], given.bits[1])
        if given.kind == "local":
            finish_echo(rule.option.code)
        return 0


cdef LabelHandle UNSET = LabelHandle()


cdef bytes octets(str text):
    return text.encode("utf-8", "surrogateescape")
