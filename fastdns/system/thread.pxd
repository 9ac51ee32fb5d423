"""Native threads that never meet Python, for work that goes on whoever holds the GIL."""

cdef extern from * nogil:
    """
    #include <pthread.h>
    #include <signal.h>

    static inline int thread_start(void *(*run)(void *)) {
        pthread_t thread;
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);    /* signals are for Python's main thread */
        int status = pthread_create(&thread, NULL, run, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (!status)
            pthread_detach(thread);
        return status;
    }
    """
    # Runs it for ever in a detached thread; 0, or the errno of pthread_create.
    int thread_start(void *(*run)(void *) noexcept nogil) noexcept
