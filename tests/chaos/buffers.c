/* LD_PRELOAD: sends of datagrams fail with ENOBUFS, one of as many as stand in a file that the test maps too (FASTDNS_BUFFERS); 0: none does.
 * Streams are left alone: the kernel gives this error where the queue of a device is full.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>

#define CONTROL "FASTDNS_BUFFERS"
#include "../preload.h"

static int fails(int fd) {
    static uint64_t calls;
    int type = 0;
    socklen_t size = sizeof type;
    int64_t one_of = control ? control->value : 0;
    if (one_of <= 0 || __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % one_of)
        return 0;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) || type != SOCK_DGRAM)
        return 0;
    __atomic_add_fetch(&control->count, 1, __ATOMIC_RELAXED);
    errno = ENOBUFS;
    return 1;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) \
        real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags) {
    REAL(sendmmsg);
    return fails(fd) ? -1 : real(fd, messages, count, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    REAL(sendmsg);
    return fails(fd) ? -1 : real(fd, message, flags);
}

ssize_t sendto(int fd, const void *octets, size_t size, int flags, const struct sockaddr *to, socklen_t length) {
    REAL(sendto);
    return fails(fd) ? -1 : real(fd, octets, size, flags, to, length);
}

ssize_t send(int fd, const void *octets, size_t size, int flags) {
    REAL(send);
    return fails(fd) ? -1 : real(fd, octets, size, flags);
}
