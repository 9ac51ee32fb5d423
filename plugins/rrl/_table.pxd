"""Accounts of rates: a table of fixed size that all workers share, without locks.

An account is two words, key and state, each read and written whole; no order between the two is needed, so all accesses are relaxed but the exchange that
takes a place. What is lost in a race is one token: of two workers that charge an account at the same time one tries again, and who charges an account while
its place is given away charges the one that comes.

The state is the time at which the account's credit begins (the theoretical arrival time of the generic cell rate algorithm, less a burst), and in its four
lowest bits how many replies are dropped until one slips.
"""
from libc.stdint cimport uint32_t, uint64_t, int64_t

cdef enum:
    WAYS = 4                    # accounts of a bucket, which is a cache line
    SLIP_MAX = 15               # what the lowest bits of a state hold

cdef enum Charge:
    CHARGE_GRANTED              # the rate is not exceeded
    CHARGE_EXCEEDED
    CHARGE_SLIPS                # exceeded, and this is the one in `slip` whose reply leaves truncated
    CHARGE_UNTRACKED            # no account: all places of its bucket are held by accounts that have exceeded their rate

cdef struct Account:
    uint64_t key                # atomic; 0: free
    int64_t state               # atomic

cdef struct AccountTable:
    Account *accounts           # buckets * WAYS, each bucket in a cache line
    Account *memory             # what is freed
    uint32_t buckets

# Makes a table of at most `size` accounts, but of one bucket at least. 0, or -1 without memory.
cdef int table_open(AccountTable *table, uint32_t size) noexcept nogil
cdef void table_close(AccountTable *table) noexcept nogil
# Charges one token to the account of a key (a keyed hash). interval: ns that a token takes; window: most ns of debt (0: what
# exceeds the rate is not charged); slip: each so many exceeded ones slip (0: none); now: ns, monotonic.
cdef Charge table_charge(const AccountTable *table, uint64_t key, int64_t interval, int64_t window, uint32_t slip, int64_t now) noexcept nogil
