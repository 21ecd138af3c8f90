#include "csv_tuner.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug.h"

struct rule {
    int collective, algorithm, protocol;
    size_t min, max;
    int channels, n_nodes, n_ranks, n_pipe_ops, reg_buff;
};

struct csv_tuner {
    bool strict;
    struct rule *rules;
    int n;
};

/* 256 bytes in the old form: the rest of a longer line is read as a line of its own. */
enum { OLD_LINE = 256, NEW_LINE = 4096, MAX_FIELDS = 10 };

static FILE *try_open(const char *directory, const char *middle, const char *arch, char *path)
{
    FILE *file = NULL;
    if (directory == NULL || *directory == '\0')
        return NULL;
    snprintf(path, PATH_MAX, "%s/%s/rccl_tuner_%s.csv", directory, middle, arch);
    file = fopen(path, "r");
    if (file == NULL) {
        snprintf(path, PATH_MAX, "%s/%s/rccl_tuner.csv", directory, middle);
        file = fopen(path, "r");
    }
    return file;
}

static int number(const char *field)
{
    return (int)strtol(field, NULL, 10);
}

/* strtok's way: empty fields vanish and shift the columns. */
static int split(char *line, char *fields[MAX_FIELDS])
{
    int n = 0;
    char *rest = NULL;
    for (char *f = strtok_r(line, ",", &rest); f != NULL && n < MAX_FIELDS;
         f = strtok_r(NULL, ",", &rest))
        fields[n++] = f;
    return n;
}

static int known(const char *word, const char *const *names, int n, bool strict, int fallback)
{
    int found = find_name(word, strlen(word), names, n);
    return found >= 0 || strict ? found : fallback;
}

static void read_rule(struct csv_tuner *tuner, char *line, int line_number)
{
    char *f[MAX_FIELDS];
    int n = split(line, f);
    if (n < 8) {
        if (n > 0)
            debug_warn("TUNER/CsvTuner: skipping line %d with %d fields", line_number, n);
        return;
    }
    /* The old form takes unknown names for allreduce, ring and simple; a header row becomes a rule.
     */
    struct rule rule = {
        .collective = known(f[0], collective_csv_names, N_TUNABLE, tuner->strict, COLL_ALL_REDUCE),
        .min = (size_t)strtoull(f[1], NULL, 10),
        .max = (size_t)strtoull(f[2], NULL, 10),
        .algorithm = known(f[3], algorithm_names, N_ALGORITHMS, tuner->strict, ALGO_RING),
        .protocol = known(f[4], protocol_names, N_PROTOCOLS, tuner->strict, PROTO_SIMPLE),
        .channels = number(f[5]),
        .n_nodes = number(f[6]),
        .n_ranks = number(f[7]),
        .n_pipe_ops = n > 8 ? number(f[8]) : -1,
        .reg_buff = n > 9 ? number(f[9]) : -1,
    };
    if (rule.collective < 0 || rule.algorithm < 0 || rule.protocol < 0) {
        debug_warn("TUNER/CsvTuner: skipping line %d with unknown %s", line_number,
                   rule.collective < 0  ? "colltype"
                   : rule.algorithm < 0 ? "algorithm"
                                        : "protocol");
        return;
    }
    struct rule *larger = realloc(tuner->rules, (size_t)(tuner->n + 1) * sizeof *larger);
    if (larger == NULL)
        sim_fail("no memory for the built-in tuner's rules");
    tuner->rules = larger;
    tuner->rules[tuner->n++] = rule;
}

static void read_rules(struct csv_tuner *tuner, FILE *file)
{
    char line[NEW_LINE];
    int line_number = 0;
    while (fgets(line, tuner->strict ? NEW_LINE : OLD_LINE, file) != NULL) {
        line_number++;
        line[strcspn(line, tuner->strict ? "\r\n" : "\n")] = '\0';
        char *start = line;
        if (tuner->strict)
            start += strspn(start, " \t");
        if (*start != '#' && *start != '\0')
            read_rule(tuner, start, line_number);
    }
}

struct csv_tuner *csv_tuner_open(const char *arch, bool strict)
{
    char path[PATH_MAX];
    const char *named = getenv("NCCL_TUNER_CONFIG_FILE");
    FILE *file = NULL;
    if (named != NULL) {
        snprintf(path, sizeof path, "%s", named);
        file = fopen(path, "r");
    }
    if (file == NULL)
        file = try_open(getenv("RCCLTUNE_SIM_LIBRARY_DIR"), "tuner", arch, path);
    if (file == NULL)
        file = try_open(getenv("ROCM_PATH"), "share/rccl/tuner", arch, path);
    if (file == NULL)
        return NULL;
    struct csv_tuner *tuner = calloc(1, sizeof *tuner);
    if (tuner == NULL)
        sim_fail("no memory for the built-in tuner");
    tuner->strict = strict;
    debug_info(SUBSYS_INIT | SUBSYS_TUNING, "Using built-in CSV tuner, config: %s", path);
    read_rules(tuner, file);
    fclose(file);
    debug_info(SUBSYS_INIT | SUBSYS_TUNING,
               "TUNER/CsvTuner: Loaded %d tuning configurations from %s", tuner->n, path);
    return tuner;
}

void csv_tuner_close(struct csv_tuner *tuner)
{
    if (tuner != NULL)
        free(tuner->rules);
    free(tuner);
}

static bool fits(int wanted, int there)
{
    return wanted == -1 || wanted == there;
}

void csv_tuner_ask(const struct csv_tuner *tuner, const struct csv_context *context, int collective,
                   size_t n_bytes, int n_pipe_ops, int reg_buff,
                   float table[N_ALGORITHMS][N_PROTOCOLS], int n_algorithms, int *n_channels)
{
    *n_channels = 0;
    for (int i = 0; i < tuner->n; i++) {
        const struct rule *r = &tuner->rules[i];
        if (r->collective != collective || n_bytes < r->min || n_bytes > r->max ||
            !fits(r->n_nodes, context->n_nodes) || !fits(r->n_ranks, context->n_ranks) ||
            !fits(r->n_pipe_ops, n_pipe_ops) || !fits(r->reg_buff, reg_buff))
            continue;
        /* Not `>= 0`: an ineligible fp8 cell of -1024 is revived, as in the library. */
        if (r->algorithm >= n_algorithms || table[r->algorithm][r->protocol] == -1.f)
            continue;
        table[r->algorithm][r->protocol] = 0.f;
        if (tuner->strict ? r->channels >= 1 : r->channels != -1)
            *n_channels = r->channels;
        debug_info(
            SUBSYS_TUNING,
            "TUNER/CsvTuner: Applied config for %s, bytes=%zu: algo=%s, proto=%s, channels=%d",
            collective_csv_names[collective], n_bytes, algorithm_names[r->algorithm],
            protocol_names[r->protocol], r->channels);
        return;
    }
}
