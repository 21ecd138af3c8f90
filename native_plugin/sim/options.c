#include "bench.h"

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The letters of each release: what is played; what changes nothing here; and what is refused
 * unless it asks for what happens anyway, because a file or a column that never comes is missed
 * late. */
static const char played_by_all[] = "tgbeifnmwcodrTGR";
static const struct {
    const char *played, *without_effect, *refused;
} families[N_BENCHES] = {
    [BENCH_RT24] = {"sOq", "pzyYuFE", "Ca"},    [BENCH_RTMID] = {"sOq", "pzyYuFE", "CaxZ"},
    [BENCH_RT25] = {"NOqM", "pzyYuFE", "CaxZ"}, [BENCH_RTNEW] = {"NOA", "pzyYuFEqxDV", "CaSJMXZ"},
    [BENCH_NT] = {"N", "pzyuxDV", "CaSJMIK"},
};

/* Where the whole number of an option goes; those that take something else are in take(). */
static const struct {
    char letter;
    size_t at;
} numbers[] = {
    {'t', offsetof(struct options, n_threads)},    {'g', offsetof(struct options, n_gpus)},
    {'f', offsetof(struct options, step_factor)},  {'n', offsetof(struct options, iters)},
    {'m', offsetof(struct options, agg_iters)},    {'w', offsetof(struct options, warmup)},
    {'N', offsetof(struct options, cycles)},       {'s', offsetof(struct options, cycles)},
    {'c', offsetof(struct options, check)},        {'r', offsetof(struct options, root)},
    {'T', offsetof(struct options, timeout)},      {'G', offsetof(struct options, graph)},
    {'R', offsetof(struct options, registered)},   {'A', offsetof(struct options, show_setting)},
    {'M', offsetof(struct options, show_setting)},
};

/* K, M and G are binary; a fraction may stand before them. */
static size_t size_of(const char *text, const char *name)
{
    double size, unit = 1;
    char letter[2] = "";
    int n = sscanf(text, "%lf %1s", &size, letter);
    const char *found = strchr("KkMmGg", letter[0]);
    if (n == 2 && found != NULL)
        unit = (double)(1 << 10 * ((found - "KkMmGg") / 2 + 1));
    if (n < 1 || (n == 2 && found == NULL) || size * unit < 0 || size * unit > 9e18) {
        fprintf(stderr, "invalid size specified for '%s'\n", name);
        exit(255);
    }
    return (size_t)(size * unit);
}

static int name_of(const char *text, const char *const *names, int n, int otherwise,
                   const char *what)
{
    int found = find_name(text_of(text), names, n, false);
    if (found >= 0)
        return found;
    printf("invalid %s %s, defaulting to %s .. \n", what, text, names[otherwise]);
    return otherwise;
}

/* A letter that the release has. */
static void take(struct options *o, int letter, const char *text)
{
    bool newest = is_new(o->family);
    int number = (int)strtol(text, NULL, 0);
    bool refused = strchr(families[o->family].refused, letter) != NULL;
    if ((refused && strcmp(text, letter == 'a' ? "1" : "0") != 0) || strcmp(text, "all") == 0)
        sim_fail("the simulated benchmark does not play -%c %s", letter, text);
    if (refused || strchr(families[o->family].without_effect, letter) != NULL)
        return;
    switch (letter) {
    case 'b':
        o->min_bytes = size_of(text, "minbytes");
        break;
    case 'e':
        o->max_bytes = size_of(text, "maxbytes");
        break;
    case 'i': /* the older ones read plain numbers only: -i 1M is 1 there */
        o->step_bytes = newest ? size_of(text, "stepBytes") : (size_t)number;
        break;
    case 'o':
        o->op = name_of(text, op_names, N_OPS, OP_SUM, "op");
        break;
    case 'd':
        o->dtype = name_of(text, dtype_names, N_DTYPES, DTYPE_FLOAT, "type");
        break;
    case 'O': /* 0 is in-place only everywhere; 1 is both before RTnew, out-of-place only there */
        o->out_of_place = number != 0;
        o->in_place = !(newest && o->out_of_place);
        break;
    case 'q': /* a missing break turns registration on as well */
        if (number != 0)
            o->registered = 1;
        break;
    default:
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            if (numbers[i].letter == letter)
                *(int *)(void *)((char *)o + numbers[i].at) = number;
        }
    }
}

void options_read(struct options *o, int family, const char *program, int argc, char **argv)
{
    static const struct option names[] = {{"help", no_argument, 0, 'h'}, {0}};
    char all[64], known[2 * sizeof all] = "h";
    int letter;
    *o = (struct options){
        .family = family,
        .n_threads = 1,
        .n_gpus = 1,
        .min_bytes = 32 << 20,
        .max_bytes = 32 << 20,
        .step_bytes = 1 << 20,
        .step_factor = 1,
        .iters = 20,
        .agg_iters = 1,
        .cycles = 1,
        .check = 1,
        .warmup = is_new(family) ? 1 : 5,
        .op = OP_SUM,
        .dtype = DTYPE_FLOAT,
        .out_of_place = true,
        .in_place = true,
    };
    snprintf(all, sizeof all, "%s%s%s%s", played_by_all, families[family].played,
             families[family].without_effect, families[family].refused);
    for (const char *c = all; *c != '\0'; c++)
        snprintf(known + strlen(known), 3, "%c:", *c);
    while ((letter = getopt_long(argc, argv, known, names, NULL)) != -1) {
        if (letter != '?' && letter != 'h') {
            take(o, letter, optarg);
            continue;
        }
        if (letter == '?')
            printf("invalid option '%c'\n", letter);
        printf("USAGE: %s \n\t", program);
        for (const char *c = all; *c != '\0'; c++) /* programs look for letters alone */
            printf("[-%c,--... <value>] \n\t", *c);
        printf("[-h,--help]\n");
        exit(0);
    }
    if (o->min_bytes > o->max_bytes) {
        fprintf(stderr, "invalid sizes for 'minbytes' and 'maxbytes': %zu > %zu\n", o->min_bytes,
                o->max_bytes);
        exit(255);
    }
}
