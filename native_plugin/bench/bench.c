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
    WALK = 4096,               /* calls of the random walk before it starts over */
    MIN_NANOSECONDS = 2000000, /* per timed run: long against the clock's resolution, and so
                                  short that on a busy machine most runs are not disturbed */
    MAX_CASES = 16,
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

/* One thing to measure: a list of sizes, and how many calls take long enough. */
struct timed_case {
    const size_t *sizes;
    size_t n_sizes;
    size_t n_calls;
    double values[MAX_REPEATS];
};

/* Cases take turns, so that whatever slows the machine for a while slows each of them alike. */
static void measure(struct host *host, struct timed_case *cases, int n_cases, int repeats)
{
    for (int k = 0; k < n_cases; k++) {
        struct timed_case *one = &cases[k];
        one->n_calls = WALK;
        while (time_calls(host, one->sizes, one->n_sizes, one->n_calls) * (double)one->n_calls <
               MIN_NANOSECONDS) {
            one->n_calls *= 2;
        }
    }
    for (int i = 0; i < repeats; i++) {
        for (int k = 0; k < n_cases; k++) {
            struct timed_case *one = &cases[k];
            one->values[i] = time_calls(host, one->sizes, one->n_sizes, one->n_calls);
        }
    }
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
    if (argc < 6 || argc > 6 + MAX_CASES - 1 || repeats < 1 || repeats > MAX_REPEATS ||
        !host_load(&host, argv[1], atoi(argv[2]))) {
        (void)fprintf(stderr,
                      "usage: rccltune-bench LIBRARY VERSION REPEATS drop|none BELOW [SIZE...]\n");
        return EXIT_FAILURE;
    }
    host.logger = strcmp(argv[4], "drop") == 0 ? drop : NULL;
    double init = measure_init(&host, repeats, &good);
    (void)printf("{\"init_ms\": %.4f, \"accepted\": %s, \"ns\": {", init, good ? "true" : "false");
    if (good && below > 0 && host_init(&host, 8, 1) == ABI_SUCCESS) {
        static struct timed_case cases[MAX_CASES];
        static size_t single[MAX_CASES];
        unsigned long long random = 88172645463325252ULL;
        int n_sizes = argc - 6;
        for (int i = 0; i < n_sizes; i++) {
            single[i] = (size_t)strtoull(argv[i + 6], NULL, 10);
            cases[i].sizes = &single[i];
            cases[i].n_sizes = 1;
        }
        for (size_t i = 0; i < WALK; i++) {
            random ^= random << 13; /* xorshift64: the same walk every time */
            random ^= random >> 7;
            random ^= random << 17;
            sizes[i] = (size_t)(random % below);
        }
        cases[n_sizes].sizes = sizes;
        cases[n_sizes].n_sizes = WALK;
        measure(&host, cases, n_sizes + 1, repeats);
        for (int i = 0; i < n_sizes; i++) {
            (void)printf("\"%zu\": %.2f, ", single[i], median(cases[i].values, repeats));
        }
        (void)printf("\"random\": %.2f", median(cases[n_sizes].values, repeats));
        (void)host_finalize(&host);
    }
    (void)printf("}}\n");
    return EXIT_SUCCESS;
}
