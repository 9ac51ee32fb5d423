"""The reply: a table of records, in order of section. See fastdns/message/reply.pxd for what owns the octets that records point to."""
from fastdns.message.reply cimport RECORDS_MAX, RECORD_OWNED, SECTION_ADDITIONAL, SECTION_ANSWER, SECTION_AUTHORITY, Record, Reply

# A reply that no query owns, such as one to parse into: with the inline records and arena, and large ones of the worker's pool.
from fastdns.message.reply cimport reply_begin, reply_end
# Adding records.
from fastdns.message.reply cimport reply_add, reply_add_record, reply_append, reply_clear, reply_parse
# Octets that live as long as the query.
from fastdns.message.reply cimport reply_alloc, reply_copy
# Adding a record unless it is there.
from fastdns.message.dedup cimport Dedup, reply_put, dedup_add, dedup_begin

# What kind of reply it is (NODATA, delegation ...), as cache and dnssec tell them apart.
from fastdns.message.typify cimport (KIND_DELEGATION, KIND_META, KIND_NAMEERROR, KIND_NODATA, KIND_NOERROR, KIND_OTHERERROR, KIND_SERVERERROR,
                                     KIND_UPDATE, ReplyKind, ReplySummary, reply_kind, reply_kind_of, reply_summarize)
# Whether a section has a record of a type.
from fastdns.message.reply cimport reply_has
# TTLs.
from fastdns.message.reply cimport reply_limit_ttl

# TSIG (RFC 8945): the record of a received message, and a signer of the message that leaves.
from fastdns.message.reply cimport RECORD_SIGNER, Signer
from fastdns.message.tsig cimport Tsig, tsig_read

# EDNS options that are sent back as received, and the message of a fitted reply, for who logs it.
from fastdns.walk.finish cimport finish_echo
from fastdns._mux cimport query_write
