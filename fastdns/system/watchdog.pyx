"""See system/watchdog.pyi."""
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t
from fastdns.system.atomic cimport atomic_load_ns, atomic_store_ns, atomic_swap_ns
from fastdns.system.socket cimport POLLOUT, poll, pollfd, socket_clock, write
from fastdns.system.thread cimport thread_start

ctypedef void (*HandlerFunc)(int number) noexcept nogil

cdef extern from * nogil:
    """
    #include <errno.h>
    #include <semaphore.h>
    #include <signal.h>
    #include <stddef.h>
    #include <time.h>
    #include <unistd.h>

    /* A handler in place of the one that there is, which goes to *former. An errno. */
    static int watchdog_handle(int number, void (*handler)(int), void (**former)(int)) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) < 0)
            return errno;
        if (action.sa_handler == handler)
            return 0;
        if (action.sa_flags & SA_SIGINFO || action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)
            return EINVAL;
        *former = action.sa_handler;
        action.sa_handler = handler;
        return sigaction(number, &action, NULL) < 0 ? errno : 0;
    }

    static void watchdog_sleep(long long ns) {
        struct timespec time = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
        nanosleep(&time, NULL);
    }
    """
    int watchdog_handle(int number, HandlerFunc handler, HandlerFunc *former) noexcept
    void watchdog_sleep(long long ns) noexcept
    ctypedef struct sem_t:
        pass
    int sem_init(sem_t *semaphore, int shared, unsigned int value) noexcept
    int sem_post(sem_t *semaphore) noexcept
    int sem_wait(sem_t *semaphore) noexcept
    void _exit(int status) noexcept

cdef enum:
    SIGNALS = 65
    LINE_MAX = 256              # octets
    LOOK = 100000000            # ns between two looks at the deadline, which another signal may bring forward
    STATUS = 3                  # of the process
    STDOUT = 1

cdef bint started
cdef sem_t signalled
cdef int64_t deadline                   # atomic; ns, monotonic; 0: none
cdef int64_t after[SIGNALS]             # atomic; ns
cdef HandlerFunc former[SIGNALS]        # the interpreter's


cdef void on_signal(int number) noexcept nogil:
    """On any thread, wherever it is: only what POSIX allows there, and what leaves errno alone."""
    cdef int64_t due = socket_clock() + atomic_load_ns(&after[number])
    cdef int64_t before = atomic_load_ns(&deadline)
    while (before == 0 or due < before) and not atomic_swap_ns(&deadline, before, due):
        before = atomic_load_ns(&deadline)
    sem_post(&signalled)
    former[number](number)


cdef void *run(void *nothing) noexcept nogil:
    cdef int64_t due, now
    cdef pollfd log
    cdef char line[LINE_MAX]
    while sem_wait(&signalled) < 0 and errno == EINTR:
        pass
    while True:
        now = socket_clock()
        due = atomic_load_ns(&deadline)
        if due <= now:
            break
        watchdog_sleep(min(due - now, <int64_t>LOOK))
    log.fd = STDOUT
    log.events = POLLOUT
    if watchdog_line != NULL and poll(&log, 1, 0) == 1:     # else nobody reads the log, which must not hold up the end
        write(STDOUT, line, watchdog_line(line))
    _exit(STATUS)
    return NULL


def watch(int number, double seconds) -> None:
    global started
    cdef int status = 0
    if not 0 < number < SIGNALS:
        raise OSError(22, f"no watchdog for signal {number}")
    atomic_store_ns(&after[number], <int64_t>(seconds * 1e9))
    if not started:
        status = sem_init(&signalled, 0, 0) or thread_start(run, b"watchdog")
        started = status == 0
    status = status or watchdog_handle(number, on_signal, &former[number])
    if status:
        raise OSError(status, f"no watchdog for signal {number}")
