#include "tuning_log.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

enum { MAX_VALUE = PATH_MAX, N_VARIABLES = 3 };

static char path[PATH_MAX];
static const char *folder;
static int rank, n_logs;
static long passed; /* bytes of the log */
static bool is_on;
/* The library's threads may read the environment whenever they like, so that it is not changed once
 * they run: these entries of it are ours, and get another value in place. */
static struct variable {
    const char *name, *ours;
    const char *usual; /* what it is where nobody sets it, by ncclDebugInit of both libraries */
    char before[MAX_VALUE], entry[MAX_VALUE + 32];
} variables[N_VARIABLES] = {
    {.name = "NCCL_DEBUG", .ours = "INFO", .usual = "VERSION"},
    {.name = "NCCL_DEBUG_SUBSYS", .ours = "INIT,ENV,TUNING", .usual = "INIT,BOOTSTRAP,ENV"},
    {.name = "NCCL_DEBUG_FILE", .ours = path, .usual = ""},
};

static void put_value(struct variable *variable, const char *value)
{
    snprintf(variable->entry, sizeof variable->entry, "%s=%s", variable->name, value);
}

/* Another name each time: the library empties a file that it opens. */
static void next_log(void)
{
    n_logs++;
    if (n_logs == 1)
        snprintf(path, sizeof path, "%s/log-%d.txt", folder, rank);
    else
        snprintf(path, sizeof path, "%s/log-%d-%d.txt", folder, rank, n_logs);
    for (int i = 0; i < N_VARIABLES; i++)
        put_value(&variables[i], variables[i].ours);
    passed = 0;
    is_on = true;
}

void tuning_log_start(const char *into, int of_rank)
{
    folder = into;
    rank = of_rank;
    for (int i = 0; i < N_VARIABLES; i++) {
        const char *before = getenv(variables[i].name);
        snprintf(variables[i].before, sizeof variables[i].before, "%s",
                 before != NULL ? before : variables[i].usual);
    }
    next_log();
    for (int i = 0; i < N_VARIABLES; i++)
        putenv(variables[i].entry);
}

void tuning_log_resume(void (*reset)(void))
{
    if (is_on || reset == NULL)
        return;
    next_log();
    reset();
}

bool tuning_log_stop(void (*reset)(void))
{
    if (!is_on)
        return true;
    if (reset == NULL)
        return false;
    for (int i = 0; i < N_VARIABLES; i++)
        put_value(&variables[i], variables[i].before);
    reset();
    is_on = false;
    return true;
}

void tuning_log_skip(void)
{
    FILE *log = is_on && rank == 0 ? fopen(path, "r") : NULL;
    if (log == NULL)
        return;
    if (fseek(log, 0, SEEK_END) == 0)
        passed = ftell(log);
    fclose(log);
}

/* The word behind a key: a name, or a number in older releases. */
static int word_behind(const char *line, const char *key, const char *const *names, int n)
{
    const char *at = strstr(line, key);
    if (at == NULL)
        return -1;
    at += strlen(key);
    size_t length = strcspn(at, " \t\n");
    if (isdigit((unsigned char)*at)) {
        int number = atoi(at);
        return number < n ? number : -1;
    }
    return position_of(at, length, names, n);
}

/* "AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}", before NCCL 2.24 "8 Bytes ->
 * Algo 1 proto 0 time 12.8". */
static bool read_line(const char *line, char *setting, size_t size)
{
    static const char channels_key[] = "{Lo..Hi}={";
    const char *at = strstr(line, "Bytes -> Algo");
    if (at == NULL)
        return false;
    bool is_long = strncmp(at, "Bytes -> Algorithm", 18) == 0;
    int algorithm =
        word_behind(at, is_long ? "Algorithm " : "Algo ", algorithm_names, N_ALGORITHMS);
    int protocol = word_behind(at, is_long ? "protocol " : "proto ", protocol_names, N_PROTOCOLS);
    int low = 0, high = -1;
    const char *channels = strstr(at, channels_key);
    if (channels != NULL && sscanf(channels + sizeof channels_key - 1, "%d..%d", &low, &high) != 2)
        high = -1;
    if (algorithm < 0 || protocol < 0)
        return false;
    int n = snprintf(setting, size, "%s/%s", algorithm_names[algorithm], protocol_names[protocol]);
    if (high >= low)
        snprintf(setting + n, size - (size_t)n, "/%d", high - low + 1);
    return true;
}

void tuning_log_read(char *setting, size_t size)
{
    char line[1024];
    *setting = '\0';
    if (!is_on || rank != 0)
        return;
    FILE *log = fopen(path, "r");
    snprintf(setting, size, "?");
    if (log == NULL || fseek(log, passed, SEEK_SET) != 0) {
        if (log != NULL)
            fclose(log);
        return;
    }
    while (fgets(line, sizeof line, log) != NULL)
        (void)read_line(line, setting, size);
    passed = ftell(log);
    fclose(log);
}
