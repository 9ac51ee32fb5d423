/* What a test tells a library of its own that the server has loaded (tests/preload.py), and what that counts: a file that both map. CONTROL is the
 * variable of the environment that names it.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct control {
    volatile int64_t value;
    int64_t count;
};

static struct control *control;     /* NULL where no test asks for it */

__attribute__((constructor)) static void map_control(void) {
    const char *path = getenv(CONTROL);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *mapped = fd < 0 ? MAP_FAILED : mmap(0, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (mapped != MAP_FAILED)
        control = mapped;
}
