/* LD_PRELOAD: the wall clock of a process is wrong by so many seconds as stand in a file that the test maps too (FASTDNS_CLOCK). Monotonic time,
 * timers of the kernel and times of files are left alone, as they are when an administrator or NTP sets the clock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

#define CONTROL "FASTDNS_CLOCK"
#include "../preload.h"

static int64_t wrong(void) {
    if (!control)
        return 0;
    __atomic_add_fetch(&control->count, 1, __ATOMIC_RELAXED);
    return control->value;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    static int (*real)(clockid_t, struct timespec *);
    int status;
    if (!real)
        real = dlsym(RTLD_NEXT, "clock_gettime");
    status = real(clock, out);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI))
        out->tv_sec += wrong();
    return status;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
