"""What policies look at of a client and of its question; see _facts.pxd."""
from libc.stdint cimport uint32_t
from fastdns.api.metadata cimport label_read
from fastdns.api.text cimport Text


cdef void facts_read(Facts *facts, uint32_t name) noexcept nogil:
    cdef const Label *label = facts.sources.labels[name]
    cdef Text text
    text.out, text.used, text.capacity, text.full = facts.text[name], 0, VALUE, 0
    facts.read |= 1u << name
    if label != NULL and label_read(label, facts.q, &text) and not text.full:
        facts.known |= 1u << name
        facts.length[name] = <unsigned char>text.used


cdef void facts_read_targets(Facts *facts) noexcept nogil:
    cdef const ClusterNames *cluster = facts.sources.cluster
    cdef Text text
    cdef uint32_t at = 0
    text.out, text.used, text.capacity, text.full = <char *>facts.targets, 0, TARGETS_OCTETS, 0
    facts.targets_read = 1
    facts.target_count = 0
    if cluster != NULL:
        cluster.namespaces(cluster, facts.q, &text)
    while at < text.used and facts.target_count < TARGETS:
        facts.target[facts.target_count] = facts.targets + at
        facts.target_count += 1
        at += facts.targets[at] + 1u
    facts.all_targets = text.full or at < text.used
