"""Connections over TCP, with or without TLS: connecting, handshake, and the octets that a `Framing` makes and takes."""
from fastdns.plugins.forward._upstream cimport Transport

cdef const Transport *TCP_TRANSPORT
