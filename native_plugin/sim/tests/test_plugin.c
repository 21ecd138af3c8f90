/*
 * A tuner plugin for the simulation's own tests.  What it exports is chosen when it is compiled
 * (-DWITH_V2 … -DWITH_V6), what it answers when it runs:
 *
 *   TESTPLUGIN_ANSWER=tree/ll[/channels][,min-max]   the setting it asks for, in a range of sizes
 *   TESTPLUGIN_CYCLE=a/p a/p …     a setting per pass: the next one whenever the size falls
 *   TESTPLUGIN_CALLS=2             and whenever it answered so many calls
 *   TESTPLUGIN_CHECK=0             writes 0.0 into cells that cannot be chosen, too
 *   TESTPLUGIN_COST=0.5            writes this instead of 0.0
 *   TESTPLUGIN_INIT=fail           init fails; TESTPLUGIN_ASK=fail: every question does
 *   TESTPLUGIN_LOG=FILE            a line for each init, question and end, appended
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tuner_abi.h"

struct context {
    int abi, n_ranks, n_nodes, step, calls;
    size_t last;
    FILE *log;
};

static const char *const algorithms[] = {"tree", "ring"};
static const char *const protocols[] = {"ll", "ll128", "simple"};

static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

static int start(int abi, size_t n_ranks, size_t n_nodes, abi_logger logger, void **context)
{
    const char *fails = setting("TESTPLUGIN_INIT"), *log = setting("TESTPLUGIN_LOG");
    if (fails != NULL)
        return ABI_INVALID_USAGE;
    struct context *c = calloc(1, sizeof *c);
    if (c == NULL)
        return ABI_SYSTEM_ERROR;
    c->abi = abi;
    c->n_ranks = (int)n_ranks;
    c->n_nodes = (int)n_nodes;
    c->log = log != NULL ? fopen(log, "a") : NULL;
    if (c->log != NULL)
        fprintf(c->log, "init v%d %d %d\n", abi, c->n_ranks, c->n_nodes);
    /* INFO in the numbers of releases before 2.28.3; newer ones hear a warning. */
    logger(3, 0x40, __FILE__, __LINE__, "TestPlugin says hello with level %d", 3);
    *context = c;
    return ABI_SUCCESS;
}

static int find(const char *word, size_t length, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        if (strlen(names[i]) == length && strncmp(word, names[i], length) == 0)
            return i;
    }
    return -1;
}

/* "tree/ll/16,0-4096" into its parts; 0 where there is none or the size is outside. */
static int wanted(struct context *c, size_t n_bytes, int *algorithm, int *protocol, int *channels)
{
    const char *text = setting("TESTPLUGIN_ANSWER"), *cycle = setting("TESTPLUGIN_CYCLE");
    if (cycle != NULL) {
        const char *most = setting("TESTPLUGIN_CALLS");
        if (n_bytes < c->last || (most != NULL && c->calls == atoi(most))) {
            c->step++;
            c->calls = 0;
        }
        c->calls++;
        c->last = n_bytes;
        text = cycle;
        for (int i = 0; i < c->step && strchr(text, ' ') != NULL; i++)
            text = strchr(text, ' ') + 1;
    }
    if (text == NULL)
        return 0;
    unsigned long long min = 0, max = ~0ull;
    const char *comma = strchr(text, ','), *slash = strchr(text, '/');
    if (comma != NULL && sscanf(comma, ",%llu-%llu", &min, &max) == 2 &&
        (n_bytes < min || n_bytes > max))
        return 0;
    if (slash == NULL)
        return 0;
    *algorithm = find(text, (size_t)(slash - text), algorithms, 2);
    *protocol = find(slash + 1, strcspn(slash + 1, "/, "), protocols, 3);
    *channels = 0;
    sscanf(slash + 1, "%*[a-z0-9]/%d", channels);
    return *algorithm >= 0 && *protocol >= 0;
}

static int ask(void *context, int collective, size_t n_bytes, float **table, int n_algorithms,
               int n_protocols, int *n_channels)
{
    struct context *c = context;
    int algorithm = -1, protocol = -1, channels = 0;
    if (setting("TESTPLUGIN_ASK") != NULL)
        return ABI_INVALID_USAGE;
    if (c->log != NULL)
        fprintf(c->log, "ask %d %zu %dx%d\n", collective, n_bytes, n_algorithms, n_protocols);
    if (!wanted(c, n_bytes, &algorithm, &protocol, &channels))
        return ABI_SUCCESS;
    const char *check = setting("TESTPLUGIN_CHECK"), *cost = setting("TESTPLUGIN_COST");
    float *cell = (float *)(void *)table + algorithm * n_protocols + protocol;
    if (*cell >= 0 || (check != NULL && *check == '0')) {
        *cell = cost != NULL ? (float)atof(cost) : 0.f;
        if (channels > 0)
            *n_channels = channels;
    }
    return ABI_SUCCESS;
}

static int end(void *context)
{
    struct context *c = context;
    if (c->log != NULL) {
        fprintf(c->log, "end\n");
        fclose(c->log);
    }
    free(c);
    return ABI_SUCCESS;
}

#define EXPORT __attribute__((visibility("default"))) extern const

#ifdef WITH_V2
static int init2(size_t r, size_t n, abi_logger l, void **c)
{
    return start(2, r, n, l, c);
}
static int ask2(void *c, int f, size_t b, int cn, int nv, int pipe, int *a, int *p, int *ch)
{
    (void)cn, (void)nv, (void)pipe;
    struct context *context = c;
    int algorithm, protocol, channels;
    if (context->log != NULL)
        fprintf(context->log, "ask %d %zu v2\n", f, b);
    if (wanted(context, b, &algorithm, &protocol, &channels)) {
        *a = algorithm;
        *p = protocol;
        *ch = channels;
    }
    return ABI_SUCCESS;
}
EXPORT struct abi_tuner_v2 ncclTunerPlugin_v2;
const struct abi_tuner_v2 ncclTunerPlugin_v2 = {"TestPlugin", init2, ask2, end};
#endif

#ifdef WITH_V3
static int init3(size_t r, size_t n, abi_logger l, void **c)
{
    return start(3, r, n, l, c);
}
static int ask3(void *c, int f, size_t b, int pipe, float **t, int na, int np, int *ch)
{
    (void)pipe;
    return ask(c, f, b, t, na, np, ch);
}
EXPORT struct abi_tuner_v3 ncclTunerPlugin_v3;
const struct abi_tuner_v3 ncclTunerPlugin_v3 = {"TestPlugin", init3, ask3, end};
#endif

#if defined(WITH_V4) || defined(WITH_V5) || defined(WITH_V6)
static int ask4(void *c, int f, size_t b, int pipe, float **t, int na, int np, int reg, int *ch)
{
    (void)pipe, (void)reg;
    return ask(c, f, b, t, na, np, ch);
}
#endif

#ifdef WITH_V4
static int init4(size_t r, size_t n, abi_logger l, void **c)
{
    return start(4, r, n, l, c);
}
EXPORT struct abi_tuner_v4 ncclTunerPlugin_v4;
const struct abi_tuner_v4 ncclTunerPlugin_v4 = {"TestPlugin", init4, ask4, end};
#endif

#ifdef WITH_V5
static int init5(void **c, uint64_t id, size_t r, size_t n, abi_logger l,
                 struct abi_nvl_domain_info *d, struct abi_tuner_constants *k)
{
    (void)id, (void)d, (void)k;
    return start(5, r, n, l, c);
}
EXPORT struct abi_tuner_v5 ncclTunerPlugin_v5;
const struct abi_tuner_v5 ncclTunerPlugin_v5 = {"TestPlugin", init5, ask4, end};
#endif

#ifdef WITH_V6
static int init6(void **c, uint64_t id, size_t r, size_t n, abi_logger l,
                 struct abi_nvl_domain_info *d, struct abi_tuner_constants *k)
{
    (void)id, (void)d, (void)k;
    return start(6, r, n, l, c);
}
EXPORT struct abi_tuner_v6 ncclTunerPlugin_v6;
const struct abi_tuner_v6 ncclTunerPlugin_v6 = {"TestPlugin", init6, ask4, end, NULL};
#endif
