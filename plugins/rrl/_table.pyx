"""Accounts of rates. The contract is in _table.pxd."""
from libc.stdint cimport uint32_t, uint64_t, int64_t
from libc.stdlib cimport calloc, free
from fastdns.api.memory cimport atomic_peek64, atomic_peek_ns, atomic_poke_ns, atomic_swap64, atomic_swap_ns

cdef enum:
    LINE = 64                   # octets of a cache line
    SECOND = 1000000000         # ns


cdef int table_open(AccountTable *table, uint32_t size) noexcept nogil:
    table.buckets = (size if size > WAYS else WAYS) // WAYS
    # Not touched here: the kernel gives a page at the first use of one of its accounts.
    table.memory = <Account *>calloc(<size_t>table.buckets + 1, LINE)
    if table.memory == NULL:
        return -1
    table.accounts = <Account *>((<size_t>table.memory + LINE - 1) & ~<size_t>(LINE - 1))
    return 0


cdef void table_close(AccountTable *table) noexcept nogil:
    free(table.memory)
    table.memory = NULL
    table.accounts = NULL


cdef inline int64_t full_credit(int64_t interval) noexcept nogil:
    """The burst: what a second gives, and one token where that takes longer."""
    return interval if interval > SECOND else SECOND


cdef inline int64_t state_of(int64_t start, uint32_t slip) noexcept nogil:
    return (start & ~<int64_t>SLIP_MAX) | slip


cdef Charge charge_account(Account *account, int64_t interval, int64_t window, uint32_t slip, int64_t now) noexcept nogil:
    cdef int64_t state, credit
    cdef uint32_t left
    cdef Charge charge
    while True:
        state = atomic_peek_ns(&account.state)
        left = <uint32_t>(state & SLIP_MAX)
        credit = now - (state & ~<int64_t>SLIP_MAX)
        if credit > full_credit(interval):
            credit = full_credit(interval)
        charge = CHARGE_GRANTED if credit >= interval else CHARGE_EXCEEDED
        if charge == CHARGE_GRANTED or window:
            credit -= interval
        if charge == CHARGE_EXCEEDED:
            if window and credit < -window:
                credit = -window
            if left > 1:
                left -= 1
            elif left == 1:
                charge = CHARGE_SLIPS
                left = slip
        if atomic_swap_ns(&account.state, state, state_of(now - credit, left)):
            return charge


cdef Charge table_charge(const AccountTable *table, uint64_t key, int64_t interval, int64_t window, uint32_t slip, int64_t now) noexcept nogil:
    cdef Account *bucket = &table.accounts[WAYS * (((key >> 32) * table.buckets) >> 32)]
    cdef Account *place
    cdef uint64_t holder, former
    cdef int64_t credit, most
    cdef uint32_t i
    key |= 1                    # 0 is a free place
    while True:
        place = NULL
        former = 0
        most = -1
        for i in range(WAYS):
            holder = atomic_peek64(&bucket[i].key)
            if holder == key:
                return charge_account(&bucket[i], interval, window, slip, now)
            # Who has most credit has least to lose; who is in debt keeps its place.
            credit = now - atomic_peek_ns(&bucket[i].state) if holder else <int64_t>0x7FFFFFFFFFFFFFFF
            if credit > most:
                most = credit
                place = &bucket[i]
                former = holder
        if place == NULL:
            return CHARGE_UNTRACKED
        if atomic_swap64(&place.key, former, key):
            atomic_poke_ns(&place.state, state_of(now - full_credit(interval) + interval, slip))
            return CHARGE_GRANTED


# ---- the Python side: tests ----

cdef class Accounts:
    cdef AccountTable table

    def __cinit__(self, uint32_t size):
        if table_open(&self.table, size) < 0:
            raise MemoryError

    def __dealloc__(self):
        table_close(&self.table)

    def charge(self, uint64_t key, double rate, int64_t now, double window=15.0, uint32_t slip=0) -> str:
        """See rrl/_table.pyi."""
        cdef Charge charge
        cdef int64_t interval = <int64_t>(SECOND / rate), debt = <int64_t>(window * SECOND)
        with nogil:
            charge = table_charge(&self.table, key, interval, debt, slip, now)
        return ("granted", "exceeded", "slips", "untracked")[<int>charge]

    def keys(self) -> list:
        return [self.table.accounts[i].key for i in range(self.table.buckets * WAYS) if self.table.accounts[i].key]
