"""Names: wire form, lower case, hashes of every suffix; lists of zones."""
from fastdns._wire cimport LABELS_MAX, NAME_MAX, Name

# From and to wire form. The octets given must be a valid uncompressed name, unless the function says that it reads a message.
from fastdns._wire cimport wire_name_copy, wire_name_equal, wire_name_hash, wire_name_length, wire_name_text
# A name as text to wire form.
from fastdns.message.text cimport text_read_name

# Is a name at or below a zone?
from fastdns.index.zone_list cimport name_is_below, wire_is_below
# A plugin's list of zones: the longest one that holds a name.
from fastdns.index.zone_list cimport ZoneList, ZoneName, Zones, zones_find, zones_hold, zones_match

# Seeds of the hash; benchmarks that count instructions set them.
from fastdns._wire cimport wire_multiplier, wire_seed
