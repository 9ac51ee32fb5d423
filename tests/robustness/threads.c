/* LD_PRELOAD: while a file that the test maps too says so (FASTDNS_THREADS), no thread can be started, as where the cgroup's pids.max is reached. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#define CONTROL "FASTDNS_THREADS"
#include "../preload.h"

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    static __typeof__(pthread_create) *real;
    if (!real)
        real = (__typeof__(pthread_create) *)dlsym(RTLD_NEXT, "pthread_create");
    if (!control || !control->value)
        return real(thread, attributes, run, argument);
    __atomic_add_fetch(&control->count, 1, __ATOMIC_RELAXED);
    return EAGAIN;
}
