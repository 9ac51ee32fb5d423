"""Native threads that never meet Python, for work that goes on whoever holds the GIL; and the names of threads, which `top -H` and `perf` show."""

cdef extern from * nogil:
    """
    #include <pthread.h>
    #include <signal.h>
    #include <stdio.h>

    static inline void thread_name(const char *name) {
        char cut[16];
        snprintf(cut, sizeof(cut), "%s", name);
        pthread_setname_np(pthread_self(), cut);
    }

    static inline int thread_start(void *(*run)(void *), const char *name) {
        pthread_t thread;
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);    /* signals are for Python's main thread */
        int status = pthread_create(&thread, NULL, run, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (!status) {
            pthread_setname_np(thread, name);
            pthread_detach(thread);
        }
        return status;
    }
    """
    # Names the thread that calls it; what is over 15 octets is cut.
    void thread_name(const char *name) noexcept
    # Runs it for ever in a detached thread of a name of at most 15 octets; 0, or the errno of pthread_create.
    int thread_start(void *(*run)(void *) noexcept nogil, const char *name) noexcept
