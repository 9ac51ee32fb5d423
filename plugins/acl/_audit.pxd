"""Lines for what audits would have stopped: a sample, which no client can fill for others."""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from fastdns.plugins.acl._facts cimport Facts

cdef enum:
    AUDIT_PAIRS = 128           # of places, of each worker
    AUDIT_WORKERS = 64
    AUDIT_INTERVAL = 60         # seconds between two lines of one place

cdef struct AuditPlace:         # of one client and policy at a time, in the pair that their hash chooses
    uint64_t hash
    int64_t next                # ns, monotonic; nothing is logged before; 0: nothing was
    uint64_t left_out           # queries since the last line

cdef struct AuditLog:           # begins zeroed; each worker has its own row
    AuditPlace places[AUDIT_WORKERS][AUDIT_PAIRS][2]

# Logs that a policy (its number, the word of its action, its file and line) would stop a query, or counts it until the next line of its client.
cdef void audit_log(AuditLog *log, Facts *facts, uint32_t policy, const char *action, const char *place) noexcept nogil
