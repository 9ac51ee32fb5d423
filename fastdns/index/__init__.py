"""Look-up structures that workers read: the record index, zones, zone lists, network prefixes."""
