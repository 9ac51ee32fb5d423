"""Lines for what audits would have stopped; see _audit.pxd."""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from fastdns.api.log cimport LOG_INFO, LOG_LINE_MAX, log_put
from fastdns.api.query cimport Query
from fastdns.api.random cimport hash_octets, hash_seed
from fastdns.api.text cimport Text, text_address, text_char, text_name, text_number, text_put, text_string, text_type
from fastdns.plugins.acl._facts cimport NO_NAME, facts_has

cdef enum:
    SECOND = 1000000000         # ns


cdef AuditPlace *place_of(AuditPlace *pair, uint64_t hash) noexcept nogil:
    """That of the client and policy, or else the one that has waited for longer."""
    cdef uint32_t i
    for i in range(2):
        if pair[i].hash == hash:
            return &pair[i]
    return &pair[pair[1].next < pair[0].next]


cdef void audit_log(AuditLog *log, Facts *facts, uint32_t policy, const char *action, const char *place) noexcept nogil:
    """A pair is chosen by a keyed hash, so a client cannot choose one whose lines it would keep back."""
    cdef const Query *q = facts.q
    cdef uint64_t hash = hash_octets(q.client.octets, 4 if q.client.family == 4 else 8, hash_seed) + policy * <uint64_t>0x9E3779B97F4A7C15
    cdef AuditPlace *found = place_of(log.places[q.worker.id][hash >> 57], hash)
    if q.worker.now < found.next:
        found.left_out += 1
        return
    write_line(facts, action, place, found.left_out)
    found.hash = hash
    found.next = q.worker.now + <int64_t>AUDIT_INTERVAL * SECOND
    found.left_out = 0


cdef void write_line(Facts *facts, const char *action, const char *place, uint64_t left_out) noexcept nogil:
    cdef const Query *q = facts.q
    cdef uint32_t name = facts.sources.namespace
    cdef char line[LOG_LINE_MAX]
    cdef Text text
    text.out, text.used, text.capacity, text.full = line, 0, LOG_LINE_MAX, 0
    text_put(&text, b"audit: ", 7)
    text_string(&text, action)
    text_put(&text, b" by ", 4)
    text_string(&text, place)
    text_put(&text, b": ", 2)
    text_name(&text, q.name.lower)
    text_char(&text, c' ')
    text_type(&text, q.qtype)
    text_put(&text, b" from ", 6)
    text_address(&text, &q.client)
    if name != NO_NAME and facts_has(facts, name):
        text_put(&text, b" in namespace ", 14)
        text_put(&text, facts.text[name], facts.length[name])
    if left_out:
        text_put(&text, b"; ", 2)
        text_number(&text, left_out)
        text_put(&text, b" more since the last line", 25)
    log_put(q.worker.id, LOG_INFO, b"acl", line, text.used)
