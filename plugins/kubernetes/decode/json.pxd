"""From msgspec's models (models.py) to the structs of _objects.pxd. The spans point into the model's texts: keep the model alive."""
from fastdns.plugins.kubernetes.decode.fields cimport Scratch
from fastdns.plugins.kubernetes.decode.objects cimport Kind, Object

# Fills scratch from a model of the kind; *object is the struct in it. A DecodeResult.
cdef int fill_object(Kind kind, object model, bint labels, Scratch *scratch, const Object **object) except? -3
