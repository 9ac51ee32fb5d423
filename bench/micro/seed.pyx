"""The seed of the name hash, fixed: who counts instructions must find every name in the same bucket each time."""
from libc.stdint cimport uint64_t
from fastdns cimport _wire


def fix_name_hash(uint64_t seed):
    """Only before any name is hashed, so before other modules of fastdns are imported; for processes that serve nobody."""
    _wire.wire_seed = seed
    _wire.wire_multiplier = seed * 0x9E3779B97F4A7C15ULL | 1
