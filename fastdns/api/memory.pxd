"""Memory that threads share: atomic operations, and when what workers may read can be freed.

A writer unlinks, takes a ticket, and frees once the ticket has passed (quiescent-state reclamation; fastdns/system/epoch.pxd).
"""
from fastdns.system.epoch cimport EpochMark, epoch_passed, epoch_mark, epoch_wait

# Atomic operations; see fastdns/system/atomic.pxd for the order that each gives.
from fastdns.system.atomic cimport (atomic_add32, atomic_add_count, atomic_bump32, atomic_bump64, atomic_bump_count, atomic_count64,
                                    atomic_exchange32, atomic_exchange64, atomic_fence, atomic_load32, atomic_load64, atomic_load_ns,
                                    atomic_load_pointer, atomic_peek32, atomic_peek64, atomic_peek8, atomic_peek_count, atomic_peek_fd,
                                    atomic_peek_ns, atomic_poke32, atomic_poke64, atomic_poke8, atomic_poke_fd, atomic_poke_ns, atomic_store32,
                                    atomic_store64, atomic_store_ns, atomic_store_pointer, atomic_swap64, atomic_swap_ns, atomic_swap_pointer,
                                    atomic_take_pointer)
# A lock for a few instructions, a thread that sleeps until it is woken, blocks of memory that are freed together.
from fastdns.system.spinlock cimport spin_free, spin_try
from fastdns.system.futex cimport sleeper_begin, sleeper_end, sleeper_wait_for, sleeper_wake
from fastdns.system.blocks cimport Blocks, blocks_free, blocks_take
# Doubly linked lists whose nodes lie in what is listed.
from fastdns.system.list cimport (List, ListNode, list_append, list_container, list_first, list_init, list_is_empty, list_last, list_next, list_prepend,
                                  list_previous, list_remove)
# Eviction by fairness: who holds most goes first.
from fastdns.system.fairness cimport (FAIR_LEVELS, FairEntry, FairQueue, fair_add, fair_choose, fair_free, fair_init, fair_remove)
# Eviction by SIEVE.
from fastdns.system.eviction cimport Sieve, SieveLink, sieve_add, sieve_advance, sieve_hand, sieve_hit, sieve_passes, sieve_remove
# Counters of live objects, in debug builds alone.
from fastdns.system.debug cimport debug_freed, debug_made
# Whether AddressSanitizer watches this build.
from fastdns.system.sanitizer cimport ADDRESS_SANITIZER
# Has the CPU fetch a cache line.
from fastdns.system.memory cimport fetch_line
