"""Records by name: the index, zones with versions, NSEC and NSEC3, master files.

What a reader gets from an index is borrowed until its worker's batch ends; a parked query copies what it keeps (api/reply.pxd).
"""
# Nodes: a name and its RRsets.
from fastdns.index.nodes cimport (INDEX_MEMORY, NODE_APEX, NODE_CNAME, NODE_CUT, NODE_DNAME, NODE_HASHED, NODE_WILDCARD, IndexCore, IndexNode, IndexRecord,
                                  IndexTable, RRset, node_rrset, node_rrsets, rrset_record)
# Look-ups (RFC 1034 4.3.2).
from fastdns.index.index cimport (FOUND_CNAME, FOUND_DELEGATION, FOUND_DNAME, FOUND_HIT, FOUND_NODATA, FOUND_NXDOMAIN, FOUND_OUTSIDE, Index,
                                  IndexOutcome, IndexResult, index_current, index_exact, index_find, index_wildcard, reply_add_rrset, table_exact,
                                  table_find, table_wildcard)
from fastdns.index.publish cimport index_holds
# For `prefetch` hooks.
from fastdns.index.index cimport table_fetch_node, table_fetch_slot
# All names of one moment.
from fastdns.index.index cimport IndexSnapshot, index_snapshot, snapshot_read, snapshot_release

# Zones of authoritative plugins: which zone holds a name, its current version, and building the next one.
from fastdns.index.zone cimport (Zone, ZoneBuilder, ZoneDraft, ZoneSet, ZoneSlots, ZoneState, zone_add, zone_age, zone_is_stale, zone_match,
                                 zone_slots)
# The next version from differences to the served one (RFC 1995).
from fastdns.index.change cimport Differences, ZoneChange, differences_add, differences_delete, differences_soa
# Denial of existence: NSEC (RFC 4034) and NSEC3 (RFC 5155).
from fastdns.index.denial cimport denial_before, denial_hash, denial_hashed

# Master files (RFC 1035 5).
from fastdns.zonefile.parser cimport ZoneParser, ZoneRecord, zonefile_begin, zonefile_end, zonefile_error, zonefile_parse, zonefile_read
# A version of a zone.
from fastdns.index.version cimport ZONE_OK, ZONE_PRESENT, ZoneVersion, zone_version
