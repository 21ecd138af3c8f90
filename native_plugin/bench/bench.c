/*
 * rccltune-bench LIBRARY VERSION REPEATS drop|none BELOW [SIZE…]: what a tuner costs per call.
 *
 * The rule file comes through NCCL_TUNER_CONFIG_FILE, which every CSV tuner reads, so another
 * library can be measured by the same program.  Prints JSON: the median init in ms, then for each
 * SIZE, and for random sizes below BELOW, the median ns per all_reduce call.  With BELOW 0 only
 * init is measured.
 */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MAX_REPEATS = 101,
    WALK = 4096, /* calls of the random walk before it starts over */
    MIN_NANOSECONDS =
        20000000, /* per timed run: long against the clock's resolution and an interrupt */
    N_CELLS = 21,
};

static void drop(int level, unsigned long subsystems, const char *file, int line,
                 const char *format, ...)
{
    (void)level;
    (void)subsystems;
    (void)file;
    (void)line;
    (void)format;
}

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

/* ns per call over a list of sizes, walked again and again. */
static double time_calls(struct host *host, const size_t *sizes, size_t n_sizes, size_t n_calls)
{
    float table[N_CELLS];
    for (size_t i = 0; i < N_CELLS; i++) {
        table[i] = 5.0F;
    }
    struct host_call call = {4, 0, 1, 0, table, 7, 3, 0};
    double start = now();
    for (size_t i = 0; i < n_calls; i++) {
        call.n_bytes =
            sizes[i % n_sizes]; /* n_sizes is a power of two or 1: cheap enough to leave in */
        call.n_channels = 0;
        (void)host_ask(host, &call);
    }
    return (now() - start) / (double)n_calls;
}

static double measure(struct host *host, const size_t *sizes, size_t n_sizes, int repeats)
{
    double values[MAX_REPEATS];
    size_t n_calls = WALK;
    while (time_calls(host, sizes, n_sizes, n_calls) * (double)n_calls < MIN_NANOSECONDS) {
        n_calls *= 2;
    }
    for (int i = 0; i < repeats; i++) {
        values[i] = time_calls(host, sizes, n_sizes, n_calls);
    }
    return median(values, repeats);
}

static double measure_init(struct host *host, int repeats, bool *good)
{
    double values[MAX_REPEATS];
    for (int i = 0; i < repeats; i++) {
        double start = now();
        *good = host_init(host, 8, 1) == ABI_SUCCESS;
        values[i] = (now() - start) / 1e6;
        if (*good) {
            (void)host_finalize(host);
        }
    }
    return median(values, repeats);
}

int main(int argc, char **argv)
{
    static size_t sizes[WALK];
    struct host host;
    bool good = false;
    int repeats = argc > 3 ? atoi(argv[3]) : 0;
    unsigned long long below = argc > 5 ? strtoull(argv[5], NULL, 10) : 0;
    if (argc < 6 || repeats < 1 || repeats > MAX_REPEATS ||
        !host_load(&host, argv[1], atoi(argv[2]))) {
        (void)fprintf(stderr,
                      "usage: rccltune-bench LIBRARY VERSION REPEATS drop|none BELOW [SIZE...]\n");
        return EXIT_FAILURE;
    }
    host.logger = strcmp(argv[4], "drop") == 0 ? drop : NULL;
    double init = measure_init(&host, repeats, &good);
    (void)printf("{\"init_ms\": %.4f, \"accepted\": %s, \"ns\": {", init, good ? "true" : "false");
    if (good && below > 0 && host_init(&host, 8, 1) == ABI_SUCCESS) {
        unsigned long long random = 88172645463325252ULL;
        for (int i = 6; i < argc; i++) {
            size_t size = (size_t)strtoull(argv[i], NULL, 10);
            (void)printf("\"%zu\": %.2f, ", size, measure(&host, &size, 1, repeats));
        }
        for (size_t i = 0; i < WALK; i++) {
            random ^= random << 13; /* xorshift64: the same walk every time */
            random ^= random >> 7;
            random ^= random << 17;
            sizes[i] = (size_t)(random % below);
        }
        (void)printf("\"random\": %.2f", measure(&host, sizes, WALK, repeats));
        (void)host_finalize(&host);
    }
    (void)printf("}}\n");
    return EXIT_SUCCESS;
}
