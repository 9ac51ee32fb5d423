"""How long the kernel lets a thread run before another's turn, and how late it wakes one.

A woken worker waits for the thread on its CPU to use up its slice, 1.4 to 3 ms, even when that one is niced;
a thread that asked for a shorter slice than the running one's takes over at once (EEVDF, Linux 6.12 and later; before, the
request is ignored). Its share of the CPU stays what it was.
"""
from libc.stdint cimport uint64_t

cdef extern from * nogil:
    """
    #include <errno.h>
    #include <stdint.h>
    #include <unistd.h>
    #include <sys/prctl.h>
    #include <sys/syscall.h>
    /* The kernel's own layout, version 0; glibc declares it from 2.41 on only. */
    struct fastdns_sched_attr {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    };
    /* Asks for slices of so many nanoseconds (0.1 to 100 ms) for the calling thread; leaves everything else as it is. */
    static inline void scheduler_set_slice(uint64_t nanoseconds) {
        struct fastdns_sched_attr attr = {0};
        int before = errno;
        if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) == 0 && attr.policy == 0) {
            attr.size = sizeof(attr);
            attr.flags = 0;
            attr.runtime = nanoseconds;
            syscall(SYS_sched_setattr, 0, &attr, 0);
        }
        errno = before;
    }
    /* By how many nanoseconds the calling thread's sleeps may be longer than asked for; 50,000 unless told. */
    static inline void scheduler_set_slack(unsigned long nanoseconds) { prctl(PR_SET_TIMERSLACK, nanoseconds, 0, 0, 0); }
    """
    void scheduler_set_slice(uint64_t nanoseconds) noexcept
    void scheduler_set_slack(unsigned long nanoseconds) noexcept
