"""What a compilation unit knows of the API for plugins: the version and the fingerprint of its headers, and how its compiler lays structs out.

`handler_init` hands a plugin's values to the core, which compares them with its own. The header is written by setup.py (tools/api_header.py).
"""
from libc.stdint cimport uint64_t
from fastdns._wire cimport Edns, Message, Name
from fastdns.message.reply cimport Record, Reply
from fastdns.system.address cimport Address
from fastdns.walk.query cimport (ANSWERED, PHASE_DONE, TRANSPORT_NONE, Explanation, Flush, Handler, Mail, Query, ServerTable, Source, Stream, Timer,
                                 Verdict, Worker, WorkerOps, Zone)

cdef extern from "fastdns_api.h":
    const char *FASTDNS_API_VERSION         # of fastdns, whose headers these are
    const char *FASTDNS_API_FINGERPRINT     # of fastdns/api/*.pxd and all that they cimport

cdef inline uint64_t layout_add(uint64_t hash, uint64_t value) noexcept nogil:
    """FNV-1a, a value a step."""
    return (hash ^ value) * <uint64_t>0x100000001B3

cdef inline uint64_t layout_offset(const void *field, const void *start) noexcept nogil:
    return <uint64_t>(<const char *>field - <const char *>start)

cdef inline uint64_t api_layout() noexcept nogil:
    """Sizes and offsets of the structs that core and plugins share, as this unit's compiler has them; a constant once compiled."""
    cdef Query *query = <Query *>4096
    cdef Handler *handler = <Handler *>4096
    cdef Worker *worker = <Worker *>4096
    cdef Reply *reply = <Reply *>4096
    cdef Record *record = <Record *>4096
    cdef Message *message = <Message *>4096
    cdef uint64_t hash = <uint64_t>0xCBF29CE484222325
    hash = layout_add(hash, sizeof(void *))
    hash = layout_add(hash, sizeof(long))
    hash = layout_add(hash, sizeof(size_t))
    hash = layout_add(hash, sizeof(Verdict))
    hash = layout_add(hash, sizeof(Query))
    hash = layout_add(hash, sizeof(Handler))
    hash = layout_add(hash, sizeof(Worker))
    hash = layout_add(hash, sizeof(WorkerOps))
    hash = layout_add(hash, sizeof(Timer))
    hash = layout_add(hash, sizeof(Source))
    hash = layout_add(hash, sizeof(Mail))
    hash = layout_add(hash, sizeof(Flush))
    hash = layout_add(hash, sizeof(Stream))
    hash = layout_add(hash, sizeof(Explanation))
    hash = layout_add(hash, sizeof(ServerTable))
    hash = layout_add(hash, sizeof(Zone))
    hash = layout_add(hash, sizeof(Reply))
    hash = layout_add(hash, sizeof(Record))
    hash = layout_add(hash, sizeof(Name))
    hash = layout_add(hash, sizeof(Edns))
    hash = layout_add(hash, sizeof(Message))
    hash = layout_add(hash, sizeof(Address))
    hash = layout_add(hash, ANSWERED)
    hash = layout_add(hash, TRANSPORT_NONE)
    hash = layout_add(hash, PHASE_DONE)
    hash = layout_add(hash, layout_offset(&query.message, query))
    hash = layout_add(hash, layout_offset(&query.client, query))
    hash = layout_add(hash, layout_offset(&query.edns, query))
    hash = layout_add(hash, layout_offset(&query.position, query))
    hash = layout_add(hash, layout_offset(&query.reply, query))
    hash = layout_add(hash, layout_offset(&query.first_name, query))
    hash = layout_add(hash, layout_offset(&query.scratch, query))
    hash = layout_add(hash, layout_offset(&handler.query, handler))
    hash = layout_add(hash, layout_offset(&handler.state, handler))
    hash = layout_add(hash, layout_offset(&worker.ops, worker))
    hash = layout_add(hash, layout_offset(&worker.random, worker))
    hash = layout_add(hash, layout_offset(&reply.edns, reply))
    hash = layout_add(hash, layout_offset(&reply.inline_records, reply))
    hash = layout_add(hash, layout_offset(&record.type, record))
    hash = layout_add(hash, layout_offset(&message.edns, message))
    return hash
