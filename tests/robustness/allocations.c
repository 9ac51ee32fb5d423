/* LD_PRELOAD: fails chosen allocations of fastdns's own modules, and of nobody else. See allocations.py.
 *
 * Whose an allocation is tells the return address. What is to fail stands in a file that the test maps too
 * (FASTDNS_ALLOCATIONS), so that one server can be swept. Everything else goes on to whoever allocates otherwise: libc, or a sanitizer.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SITES = 1024, MODULES = 128, NAME = 96, PLACES = 1 << 16 };

struct site {               /* one call of an allocating function in the text of a module */
    uint64_t offset;        /* of the return address in its module */
    uint32_t module;
    uint32_t hits;          /* while armed */
    uint32_t failed;
    uint32_t padding;
};

struct control {
    uint32_t armed;
    int32_t only;           /* fail this site alone; -1: any */
    int64_t skip;           /* so many go well first */
    int64_t fail;           /* so many fail then */
    uint64_t seen;          /* allocations while armed */
    uint64_t failed;
    uint32_t sites;
    uint32_t modules;
    char module[MODULES][NAME];
    struct site site[SITES];
};

static struct control *control;
static const char *prefixes;        /* of the modules' paths, colons between */
static uintptr_t places[PLACES];    /* return addresses seen, open addressing */
static int32_t verdicts[PLACES];    /* site + 1; -1: not ours */
static volatile int lock;

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void *(*next_aligned)(size_t, size_t);
static int (*next_memalign)(void **, size_t, size_t);

static void *next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        abort();
    return found;
}

static int ours(const char *path) {
    for (const char *at = prefixes; at && *at; ) {
        size_t length = strcspn(at, ":");
        if (length && !strncmp(path, at, length))
            return 1;
        at += length + (at[length] == ':');
    }
    return 0;
}

/* The number of a return address's site, or -1. Registers what it has not seen. */
static int32_t site_of(uintptr_t pc) {
    uint32_t slot = (uint32_t)((pc * 0x9E3779B97F4A7C15u) >> 48);
    int32_t verdict = -1;
    struct dl_find_object found;
    const char *path, *name;
    uint32_t m;
    for (;; slot = (slot + 1) & (PLACES - 1)) {
        uintptr_t there = __atomic_load_n(&places[slot], __ATOMIC_ACQUIRE);
        if (there == pc) {
            while (!(verdict = __atomic_load_n(&verdicts[slot], __ATOMIC_ACQUIRE)))
                ;
            return verdict < 0 ? -1 : verdict - 1;
        }
        if (!there) {
            uintptr_t none = 0;
            if (__atomic_compare_exchange_n(&places[slot], &none, pc, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
                break;
            if (none == pc)
                slot = (slot - 1) & (PLACES - 1);
        }
    }
    if (_dl_find_object((void *)pc, &found) == 0 && found.dlfo_link_map && ours(path = found.dlfo_link_map->l_name)) {
        while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
            ;
        name = strrchr(path, '/');
        while (name > path && name[-1] != '/')      /* the folder too: several have a module of one name */
            name--;
        for (m = 0; m < control->modules && strcmp(control->module[m], name); m++)
            ;
        if (m == control->modules && m < MODULES) {
            strncpy(control->module[m], name, NAME - 1);
            control->modules++;
        }
        if (control->sites < SITES) {
            struct site *site = &control->site[control->sites];
            site->offset = pc - (uintptr_t)found.dlfo_link_map->l_addr;
            site->module = m;
            verdict = (int32_t)++control->sites;
        }
        __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&verdicts[slot], verdict, __ATOMIC_RELEASE);
    return verdict < 0 ? -1 : verdict - 1;
}

/* Whether this allocation fails. */
static int fails(void *caller) {
    int32_t number;
    struct site *site;
    if (!control || !__atomic_load_n(&control->armed, __ATOMIC_ACQUIRE))
        return 0;
    number = site_of((uintptr_t)caller);
    if (number < 0)
        return 0;
    site = &control->site[number];
    __atomic_add_fetch(&control->seen, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&site->hits, 1, __ATOMIC_RELAXED);
    if (control->only >= 0 && number != control->only)
        return 0;
    if (__atomic_sub_fetch(&control->skip, 1, __ATOMIC_ACQ_REL) >= 0)
        return 0;
    if (__atomic_sub_fetch(&control->fail, 1, __ATOMIC_ACQ_REL) < 0)
        return 0;
    __atomic_add_fetch(&site->failed, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&control->failed, 1, __ATOMIC_RELAXED);
    errno = ENOMEM;
    return 1;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FASTDNS_ALLOCATIONS");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *mapped;
    prefixes = getenv("FASTDNS_ALLOCATIONS_OF");
    if (fd < 0 || !prefixes)
        return;
    mapped = (void *)syscall(SYS_mmap, NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED)
        control = mapped;
}

void *malloc(size_t size) {
    if (fails(__builtin_return_address(0)))
        return NULL;
    if (!next_malloc)
        next_malloc = next("malloc");
    return next_malloc(size);
}

void *calloc(size_t count, size_t size) {
    if (fails(__builtin_return_address(0)))
        return NULL;
    if (!next_calloc)
        next_calloc = next("calloc");
    return next_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    if (fails(__builtin_return_address(0)))
        return NULL;
    if (!next_realloc)
        next_realloc = next("realloc");
    return next_realloc(block, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    if (fails(__builtin_return_address(0)))
        return NULL;
    if (!next_aligned)
        next_aligned = next("aligned_alloc");
    return next_aligned(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
    if (fails(__builtin_return_address(0)))
        return ENOMEM;
    if (!next_memalign)
        next_memalign = next("posix_memalign");
    return next_memalign(out, alignment, size);
}

static void *map(void *caller, void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    long mapped;
    if (fails(caller))
        return MAP_FAILED;
    mapped = syscall(SYS_mmap, address, length, protection, flags, fd, offset);
    return mapped == -1 ? MAP_FAILED : (void *)mapped;
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return map(__builtin_return_address(0), address, length, protection, flags, fd, offset);
}

/* What Python's headers make of it. */
void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return map(__builtin_return_address(0), address, length, protection, flags, fd, offset);
}
