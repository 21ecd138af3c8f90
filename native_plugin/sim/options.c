#include "bench.h"

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RT24 = 1 << BENCH_RT24,
    RTMID = 1 << BENCH_RTMID,
    RT25 = 1 << BENCH_RT25,
    RTNEW = 1 << BENCH_RTNEW,
    NT = 1 << BENCH_NT,
    OLD = RT24 | RTMID | RT25,
    NEW = RTNEW | NT,
    ALL = OLD | NEW
};
/* What is not played is refused, but for the value that it has anyway. */
enum { SPECIAL = -1, WITHOUT_EFFECT = -2, NOT_PLAYED = -3, MEANS_ONE = -4 };
#define AT(member) (int)offsetof(struct options, member)

/* Every option of every release: who has it, what --help says of it (programs read the letters and
 * the long names; the rest is our own wording), and where its whole number goes. */
static const struct row_of_options {
    char letter;
    int families;
    const char *name, *argument;
    int at;
} rows[] = {
    {'t', ALL, "nthreads", "num threads", AT(n_threads)},
    {'g', ALL, "ngpus", "gpus per thread", AT(n_gpus)},
    {'b', ALL, "minbytes", "min size in bytes", SPECIAL},
    {'e', ALL, "maxbytes", "max size in bytes", SPECIAL},
    {'i', ALL, "stepbytes", "increment size", SPECIAL},
    {'f', ALL, "stepfactor", "increment factor", AT(step_factor)},
    {'n', ALL, "iters", "iteration count", AT(iters)},
    {'m', ALL, "agg_iters", "aggregated iterations", AT(agg_iters)},
    {'w', ALL, "warmup_iters", "warmup iterations", AT(warmup)},
    {'N', RT25 | NEW, "run_cycles", "cycle count; 0=infinite", AT(cycles)},
    {'s', RT24 | RTMID, "stress_cycles", "number of cycles", AT(cycles)},
    {'p', ALL, "parallel_init", "0/1", AT(parallel_init)},
    {'I', NT, "per_iter_timing", "0/1", NOT_PLAYED},
    {'K', NT, "per_iter_skip", "count", NOT_PLAYED},
    {'c', ALL, "check", "check iterations", AT(check)},
    {'o', ALL, "op", "sum/prod/min/max/avg/mulsum/all", SPECIAL},
    {'d', ALL, "datatype", "type/all", SPECIAL},
    {'r', ALL, "root", "root/all", AT(root)},
    {'z', ALL, "blocking", "0/1", AT(blocking)},
    {'y', ALL, "stream_null", "0/1", WITHOUT_EFFECT},
    {'T', ALL, "timeout", "seconds", AT(timeout)},
    {'G', ALL, "cudagraph", "num graph launches", AT(graph)},
    {'C', ALL, "report_cputime", "0/1", NOT_PLAYED},
    {'S', NEW, "report_timestamps", "0/1", NOT_PLAYED},
    {'J', NEW, "output_file", "file", NOT_PLAYED},
    {'a', ALL, "average", "0/1/2/3", MEANS_ONE},
    {'R', ALL, "local_register", "0/1/2", AT(registered)},
    {'x', RTMID | RT25, "output_file", "file", NOT_PLAYED},
    {'x', NEW, "cta_policy", "0/1/2", WITHOUT_EFFECT},
    {'D', NEW, "device_implementation", "number", WITHOUT_EFFECT},
    {'V', NEW, "device_cta_count", "number", WITHOUT_EFFECT},
    {'M', RT25, "output_algo_proto_channels", "0/1", AT(show_setting)},
    {'M', NEW, "memory_report", "0/1", NOT_PLAYED},
    {'Y', OLD | RTNEW, "memory_type", "coarse/fine/host/managed", WITHOUT_EFFECT},
    {'u', OLD | RTNEW, "cumask", "d0,d1,d2,d3", WITHOUT_EFFECT},
    {'u', NT, "unalign", "elements", WITHOUT_EFFECT},
    {'O', OLD | RTNEW, "out_of_place", "0/1", SPECIAL},
    {'q', OLD, "delay", "microseconds", SPECIAL},
    {'q', RTNEW, "delay_inout_place", "microseconds", WITHOUT_EFFECT},
    {'F', OLD | RTNEW, "cache_flush", "iterations", WITHOUT_EFFECT},
    {'E', OLD | RTNEW, "rotating_tensor", "0/1", WITHOUT_EFFECT},
    {'Z', RTMID | RT25, "output_format", "csv|json", NOT_PLAYED},
    {'Z', RTNEW, "rccl_output_format", "csv|json", NOT_PLAYED},
    {'X', RTNEW, "rccl_output_file", "file", NOT_PLAYED},
    {'A', RTNEW, "output_algo_proto_channels", "0/1", AT(show_setting)},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static _Noreturn void usage(int family, const char *program)
{
    const char *slash = strrchr(program, '/');
    printf("USAGE: %s \n\t", slash != NULL ? slash + 1 : program);
    for (size_t i = 0; i < N_ROWS; i++) {
        if (rows[i].families >> family & 1)
            printf("[-%c,--%s <%s>] \n\t", rows[i].letter, rows[i].name, rows[i].argument);
    }
    printf("[-h,--help]\n");
    exit(0);
}

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
    int found = find_name(text, strlen(text), names, n);
    if (found >= 0)
        return found;
    printf("invalid %s %s, defaulting to %s .. \n", what, text, names[otherwise]);
    return otherwise;
}

static void take_special(struct options *o, int letter, const char *text)
{
    bool newest = is_new(o->family);
    int number = (int)strtol(text, NULL, 0);
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
    default: /* -q before RTnew: a missing break turns registration on as well */
        if (number != 0)
            o->registered = 1;
    }
}

static void take(struct options *o, const struct row_of_options *row, const char *text)
{
    bool usual = strcmp(text, row->at == MEANS_ONE ? "1" : "0") == 0;
    if ((row->at <= NOT_PLAYED && !usual) || strcmp(text, "all") == 0)
        sim_fail("the simulated benchmark does not play -%c %s (%s)", row->letter, text, row->name);
    if (row->at == SPECIAL)
        take_special(o, row->letter, text);
    else if (row->at >= 0)
        *(int *)(void *)((char *)o + row->at) = (int)strtol(text, NULL, 0);
}

void options_read(struct options *o, int family, int argc, char **argv)
{
    struct option table[N_ROWS + 2] = {{"help", no_argument, 0, 'h'}};
    const struct row_of_options *by_letter[128] = {NULL};
    char letters[2 * N_ROWS + 2] = "h";
    int n = 1, letter;
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
    for (size_t i = 0; i < N_ROWS; i++) {
        if ((rows[i].families >> family & 1) == 0)
            continue;
        table[n] = (struct option){rows[i].name, required_argument, 0, rows[i].letter};
        letters[2 * n - 1] = rows[i].letter;
        letters[2 * n++] = ':';
        by_letter[(unsigned char)rows[i].letter] = &rows[i];
    }
    while ((letter = getopt_long(argc, argv, letters, table, NULL)) != -1) {
        if (letter == '?')
            printf("invalid option '%c'\n", letter);
        if (letter == '?' || letter == 'h')
            usage(family, argv[0]);
        take(o, by_letter[letter], optarg);
    }
    if (o->min_bytes > o->max_bytes) {
        fprintf(stderr, "invalid sizes for 'minbytes' and 'maxbytes': %zu > %zu\n", o->min_bytes,
                o->max_bytes);
        exit(255);
    }
}
