"""Unpredictable numbers, and a keyed hash that nobody outside of the process can foresee."""
# A worker's generator is `worker.random`.
from fastdns.system.random cimport Random, random_below, random_init, random_next
from fastdns.system.hash cimport hash_octets, hash_seed
