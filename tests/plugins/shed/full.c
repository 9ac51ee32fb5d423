/* Preloaded into a server under test: while the file $FASTDNS_TEST_FULL exists, UDP sockets take no replies. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int is_full(const struct msghdr *message) {
    const char *path = getenv("FASTDNS_TEST_FULL");
    return message->msg_name != NULL && path != NULL && access(path, F_OK) == 0;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    static ssize_t (*next)(int, const struct msghdr *, int);
    if (is_full(message)) {
        errno = EAGAIN;
        return -1;
    }
    if (next == NULL)
        next = (ssize_t (*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg");
    return next(fd, message, flags);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned int n, int flags) {
    static int (*next)(int, struct mmsghdr *, unsigned int, int);
    if (n > 0 && is_full(&messages[0].msg_hdr)) {
        errno = EAGAIN;
        return -1;
    }
    if (next == NULL)
        next = (int (*)(int, struct mmsghdr *, unsigned int, int))dlsym(RTLD_NEXT, "sendmmsg");
    return next(fd, messages, n, flags);
}
