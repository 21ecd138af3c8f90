#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every long option that some release has; which letters count is the family's option string.  -S,
 * -N and the like mean the same wherever they exist; the letters that changed are told apart below.
 */
static const struct option long_options[] = {
    {"nthreads", required_argument, 0, 't'},
    {"ngpus", required_argument, 0, 'g'},
    {"minbytes", required_argument, 0, 'b'},
    {"maxbytes", required_argument, 0, 'e'},
    {"stepbytes", required_argument, 0, 'i'},
    {"stepfactor", required_argument, 0, 'f'},
    {"iters", required_argument, 0, 'n'},
    {"agg_iters", required_argument, 0, 'm'},
    {"warmup_iters", required_argument, 0, 'w'},
    {"run_cycles", required_argument, 0, 'N'},
    {"stress_cycles", required_argument, 0, 's'},
    {"parallel_init", required_argument, 0, 'p'},
    {"check", required_argument, 0, 'c'},
    {"op", required_argument, 0, 'o'},
    {"datatype", required_argument, 0, 'd'},
    {"root", required_argument, 0, 'r'},
    {"blocking", required_argument, 0, 'z'},
    {"stream_null", required_argument, 0, 'y'},
    {"timeout", required_argument, 0, 'T'},
    {"cudagraph", required_argument, 0, 'G'},
    {"report_cputime", required_argument, 0, 'C'},
    {"report_timestamps", required_argument, 0, 'S'},
    {"output_file", required_argument, 0, 'J'},
    {"average", required_argument, 0, 'a'},
    {"local_register", required_argument, 0, 'R'},
    {"cta_policy", required_argument, 0, 'x'},
    {"device_implementation", required_argument, 0, 'D'},
    {"device_cta_count", required_argument, 0, 'V'},
    {"memory_report", required_argument, 0, 'M'},
    {"memory_type", required_argument, 0, 'Y'},
    {"cumask", required_argument, 0, 'u'},
    {"unalign", required_argument, 0, 'u'},
    {"per_iter_timing", required_argument, 0, 'I'},
    {"per_iter_skip", required_argument, 0, 'K'},
    {"out_of_place", required_argument, 0, 'O'},
    {"delay_inout_place", required_argument, 0, 'q'},
    {"cache_flush", required_argument, 0, 'F'},
    {"rotating_tensor", required_argument, 0, 'E'},
    {"rccl_output_format", required_argument, 0, 'Z'},
    {"rccl_output_file", required_argument, 0, 'X'},
    {"output_algo_proto_channels", required_argument, 0, 'A'},
    {"help", no_argument, 0, 'h'},
    {0, 0, 0, 0},
};

/* What --help says of each letter, our own wording; programs read the letters and the long names.
 */
static const struct {
    char letter;
    const char *argument;
} arguments[] = {
    {'t', "num threads"},
    {'g', "gpus per thread"},
    {'b', "min size in bytes"},
    {'e', "max size in bytes"},
    {'i', "increment size"},
    {'f', "increment factor"},
    {'n', "iteration count"},
    {'m', "aggregated iterations"},
    {'w', "warmup iterations"},
    {'N', "cycle count; 0=infinite"},
    {'s', "number of cycles"},
    {'p', "0/1"},
    {'c', "check iterations"},
    {'o', "sum/prod/min/max/avg/mulsum/all"},
    {'d', "type/all"},
    {'r', "root/all"},
    {'z', "0/1"},
    {'y', "0/1"},
    {'T', "seconds"},
    {'G', "num graph launches"},
    {'C', "0/1"},
    {'S', "0/1"},
    {'J', "file"},
    {'a', "0/1/2/3"},
    {'R', "0/1/2"},
    {'x', "0/1/2"},
    {'D', "number"},
    {'V', "number"},
    {'M', "0/1"},
    {'Y', "coarse/fine/host/managed"},
    {'u', "d0,d1,d2,d3"},
    {'I', "0/1"},
    {'K', "count"},
    {'O', "0/1"},
    {'q', "microseconds"},
    {'F', "iterations"},
    {'E', "0/1"},
    {'Z', "csv|json"},
    {'X', "file"},
    {'A', "0/1"},
};

/* Names that a letter has in one family only. */
static const char *long_name(int family, const struct option *option)
{
    bool old = family == BENCH_RT24 || family == BENCH_RTMID || family == BENCH_RT25;
    if (family == BENCH_NT && option->val == 'u')
        return strcmp(option->name, "unalign") == 0 ? option->name : NULL;
    if (family != BENCH_NT && strcmp(option->name, "unalign") == 0)
        return NULL;
    if (old && option->val == 'q')
        return NULL; /* a letter without a long name there */
    if (old && option->val == 'x')
        return "output_file";
    if (old && option->val == 'Z')
        return "output_format";
    if (family == BENCH_RT25 && option->val == 'M')
        return "output_algo_proto_channels";
    return option->name;
}

static bool has_letter(const char *letters, int letter)
{
    return letter != ':' && strchr(letters, letter) != NULL;
}

static _Noreturn void usage(int family, const char *program)
{
    const char *letters = benchmark_family(family)->options, *slash = strrchr(program, '/');
    printf("USAGE: %s \n\t", slash != NULL ? slash + 1 : program);
    for (const struct option *o = long_options; o->name != NULL; o++) {
        const char *name = long_name(family, o), *argument = NULL;
        for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
            if (arguments[i].letter == o->val)
                argument = arguments[i].argument;
        }
        if (o->val == 'q' && name == NULL && has_letter(letters, 'q'))
            name = "delay"; /* printed, though getopt does not know it */
        if (name != NULL && argument != NULL && has_letter(letters, o->val))
            printf("[-%c,--%s <%s>] \n\t", o->val, name, argument);
    }
    printf("[-h,--help]\n");
    exit(0);
}

/* K, M and G are binary; a fraction may stand before them. */
static bool parse_size(const char *text, size_t *bytes)
{
    double size, unit = 1;
    char letter[2];
    int n = sscanf(text, "%lf %1s", &size, letter);
    if (n == 2) {
        const char *found = strchr("KkMmGg", letter[0]);
        if (found == NULL)
            return false;
        unit = (double)(1 << 10 * ((found - "KkMmGg") / 2 + 1));
    }
    if (n < 1 || size * unit < 0 || size * unit > 9e18)
        return false;
    *bytes = (size_t)(size * unit);
    return true;
}

static void take_size(const char *text, const char *name, size_t *bytes)
{
    if (parse_size(text, bytes))
        return;
    fprintf(stderr, "invalid size specified for '%s'\n", name);
    exit(255);
}

static int take_name(const char *text, const char *const *names, int n, int otherwise,
                     const char *what)
{
    if (strcmp(text, "all") == 0)
        return -1;
    int found = find_name(text, strlen(text), names, n);
    if (found >= 0)
        return found;
    printf("invalid %s %s, defaulting to %s .. \n", what, text, names[otherwise]);
    return otherwise;
}

static int take_int(const char *text)
{
    return (int)strtol(text, NULL, 0);
}

/* Letters with one meaning in every release; false for the others. */
static bool take_common(struct options *o, int letter, const char *text)
{
    switch (letter) {
    case 't':
        o->n_threads = take_int(text);
        return true;
    case 'g':
        o->n_gpus = take_int(text);
        return true;
    case 'b':
        take_size(text, "minbytes", &o->min_bytes);
        return true;
    case 'e':
        take_size(text, "maxbytes", &o->max_bytes);
        return true;
    case 'f':
        o->step_factor = (size_t)strtol(text, NULL, 0);
        return true;
    case 'n':
        o->iters = take_int(text);
        return true;
    case 'm':
        o->agg_iters = take_int(text);
        return true;
    case 'w':
        o->warmup = take_int(text);
        return true;
    case 'N':
    case 's':
        o->cycles = take_int(text);
        return true;
    case 'p':
        o->parallel_init = take_int(text);
        return true;
    case 'c':
        o->check = take_int(text);
        return true;
    case 'o':
        o->op = take_name(text, op_names, N_OPS, OP_SUM, "op");
        return true;
    case 'd':
        o->dtype = take_name(text, dtype_names, N_DTYPES, DTYPE_FLOAT, "type");
        return true;
    case 'r':
        o->root = strcmp(text, "all") == 0 ? -1 : take_int(text);
        return true;
    case 'z':
        o->blocking = take_int(text);
        return true;
    case 'T':
        o->timeout = take_int(text);
        return true;
    case 'G':
        o->graph = take_int(text);
        return true;
    case 'C':
        o->cpu_time = take_int(text);
        return true;
    case 'S':
        o->timestamps = take_int(text);
        return true;
    case 'J':
        o->json_path = text;
        return true;
    case 'a':
        o->average = take_int(text);
        return true;
    case 'R':
        o->registered = take_int(text);
        return true;
    case 'X':
        o->report_path = text;
        return true;
    case 'Z':
        o->report_format = text;
        return true;
    case 'A':
        o->show_setting = take_int(text);
        return true;
    case 'I':
        o->per_iteration = take_int(text);
        return true;
    case 'K':
        o->skip = take_int(text);
        return true;
    case 'D':
    case 'V':
    case 'Y':
    case 'u':
    case 'F':
    case 'E':
    case 'y':
        return true;
    default:
        return false;
    }
}

static bool take_special(struct options *o, int letter, const char *text)
{
    bool newest = o->family == BENCH_RTNEW || o->family == BENCH_NT;
    switch (letter) {
    case 'i': /* the older ones read plain numbers only: -i 1M is 1 there */
        if (newest)
            take_size(text, "stepBytes", &o->step_bytes);
        else
            o->step_bytes = (size_t)strtol(text, NULL, 0);
        return true;
    case 'O': /* 0 is in-place only everywhere; 1 is both before RTnew, out-of-place only there */
        o->out_of_place = take_int(text) != 0;
        o->in_place = !(newest && o->out_of_place);
        return true;
    case 'q': /* a missing break turns registration on as well */
        if (!newest && take_int(text) != 0)
            o->registered = 1;
        return true;
    case 'x':
        if (!newest)
            o->report_path = text;
        return true;
    case 'M':
        if (o->family == BENCH_RT25)
            o->show_setting = take_int(text);
        else
            o->memory_report = take_int(text);
        return true;
    default:
        return false;
    }
}

static int getopt_table(int family, struct option *table, int room)
{
    const char *letters = benchmark_family(family)->options;
    int n = 0;
    for (const struct option *o = long_options; o->name != NULL && n + 1 < room; o++) {
        const char *name = long_name(family, o);
        if (name == NULL || !has_letter(letters, o->val))
            continue;
        table[n] = *o;
        table[n++].name = name;
    }
    memset(&table[n], 0, sizeof table[n]);
    return n;
}

void options_read(struct options *o, int family, int argc, char **argv)
{
    const struct benchmark_family *benchmark = benchmark_family(family);
    struct option table[64];
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
        .warmup = benchmark->default_warmup,
        .average = 1,
        .op = OP_SUM,
        .dtype = DTYPE_FLOAT,
        .out_of_place = true,
        .in_place = true,
    };
    getopt_table(family, table, sizeof table / sizeof *table);
    while ((letter = getopt_long(argc, argv, benchmark->options, table, NULL)) != -1) {
        if (letter == 'h')
            usage(family, argv[0]);
        if (take_common(o, letter, optarg) || take_special(o, letter, optarg))
            continue;
        printf("invalid option '%c'\n", letter);
        usage(family, argv[0]);
    }
    if (o->min_bytes > o->max_bytes) {
        fprintf(stderr, "invalid sizes for 'minbytes' and 'maxbytes': %zu > %zu\n", o->min_bytes,
                o->max_bytes);
        exit(255);
    }
    if (o->report_format != NULL && strcmp(o->report_format, "csv") != 0 &&
        strcmp(o->report_format, "json") != 0) {
        fprintf(stderr, "Invalid --%soutput_format: %s\n", family == BENCH_RTNEW ? "rccl_" : "",
                o->report_format);
        exit(255);
    }
}
