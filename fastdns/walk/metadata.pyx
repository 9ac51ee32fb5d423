"""Resolving labels of metadata; see walk/metadata.pxd."""
from fastdns.walk.query cimport Query
from fastdns.message.text cimport Text, text_name, text_string
from fastdns.index.zone_list cimport ZoneList

cdef class LabelHandle:
    pass


cdef bint write_wildcard(const Label *label, Query *q, Text *out) noexcept nogil:
    """The owner of the record that answered, where that was a wildcard; handlers that answer from zone files, and cache, note it."""
    if q.wildcard == 0:
        return False
    text_string(out, b"*.")
    if q.wildcard > 1:
        text_name(out, q.wildcard_name.lower + q.wildcard_name.offset[q.wildcard_name.labels + 1 - q.wildcard])
    return True


def is_label(str text not None) -> bool:
    """Whether a text has the form of a label: something on each side of its first slash."""
    plugin, slash, rest = text.partition("/")
    return bool(plugin and slash and rest)


def resolve(config, str text not None) -> LabelHandle:
    """What publishes a label in a server block, once all its directives are set up; the handle of an unset one if nobody does.

    A handler publishes by a method ``label(name)`` that gives a LabelHandle, or None.
    """
    cdef ZoneList zones = config.values.get("metadata")
    cdef LabelHandle found
    plugin, _, name = text.partition("/")
    if zones is not None and text == "zone/wildcard":
        found = LabelHandle()
        found.label.value = write_wildcard
        return found
    if zones is not None and is_label(text):
        for publisher in [config.handler(plugin), *config.filters]:
            publish = getattr(publisher, "label", None)
            if publisher is None or publisher.name != plugin or publish is None:
                continue
            found = publish(name)
            if found is not None:
                found.kept = (found.kept, publisher, zones)
                if not found.anywhere:
                    found.label.zones = &zones.zones
                return found
    return LabelHandle()
