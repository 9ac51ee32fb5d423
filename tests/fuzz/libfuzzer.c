/* libFuzzer as a library that is loaded before Python's modules, which then tell it what they cover. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*callback)(const uint8_t *octets, size_t size));

/* Of code that no compiler instruments: libFuzzer reads what stands in this section as it reads a module's counters. */
__attribute__((section("__libfuzzer_extra_counters"))) uint8_t fuzz_counters[16384];

static const char *(*target)(const uint8_t *octets, size_t size);

static int run(const uint8_t *octets, size_t size)
{
    const char *failure = target(octets, size);
    if (failure) {
        fprintf(stderr, "==fuzz== %s\n", failure);
        abort();
    }
    return 0;
}

int fuzz(int argc, char **argv, void *function)
{
    target = (const char *(*)(const uint8_t *, size_t))function;
    return LLVMFuzzerRunDriver(&argc, &argv, run);
}

void fuzz_at_end(void (*function)(void))
{
    atexit(function);
}
