/* What goes wrong on purpose, in the words that the real programs use. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"
#include "debug.h"

const char *host_of(const struct bench *bench, int rank, char *text, size_t size)
{
    int per_node = bench->n_ranks / bench->n_nodes;
    if (bench->n_nodes == 1)
        snprintf(text, size, "%s", bench->node.host);
    else
        snprintf(text, size, "%s%d", bench->node.host, rank / per_node);
    return text;
}

/* The end of a benchmark, as its macros print it. */
static _Noreturn void fail(const struct bench *bench, int code, const char *what, int at)
{
    char host[48];
    host_of(bench, bench->first_rank, host, sizeof host);
    printf("%s: Test %s .. %s pid %d: Test failure simulated/common.cu.cpp:%d\n", host, what, host,
           (int)getpid(), at);
    fflush(stdout);
    exit(code);
}

void test_failure(const struct bench *bench, int nccl_result, const char *detail)
{
    char what[2048];
    snprintf(what, sizeof what, "NCCL failure simulated/common.cu.cpp:1413 '%s / %s'\n",
             result_text(nccl_result), detail);
    fail(bench, TEST_NCCL_ERROR, what, 1230);
}

void timed_out(const struct bench *bench)
{
    char what[64];
    snprintf(what, sizeof what, "timeout (%ds) simulated/common.cu.cpp:394\n",
             bench->options.timeout);
    fail(bench, TEST_TIMEOUT, what, 585);
}

void hang(const struct bench *bench)
{
    if (bench->options.timeout <= 0)
        wait_for_ever();
    fflush(stdout);
    sleep_for(bench->options.timeout);
    timed_out(bench);
}

static bool is_mine(const struct bench *bench, int rank)
{
    return rank >= bench->first_rank && rank < bench->first_rank + bench->n_local;
}

void faults_at_call(const struct bench *bench, const struct situation *s)
{
    const struct fault *f = NULL;
    while ((f = next_fault(&bench->node, f, FAULT_HANG, s)) != NULL) {
        if (f->rank < 0 || is_mine(bench, f->rank))
            hang(bench);
    }
    while ((f = next_fault(&bench->node, f, FAULT_CRASH, s)) != NULL) {
        if (is_mine(bench, f->rank < 0 ? 0 : f->rank))
            crash_now(f);
    }
}

int64_t wrong_elements(const struct bench *bench, const struct situation *s, size_t n_received)
{
    const struct fault *f = NULL;
    int64_t wrong = 0;
    while ((f = next_fault(&bench->node, f, FAULT_WRONG, s)) != NULL)
        wrong += f->number + (int64_t)ceil(f->factor * (double)n_received) * s->ranks;
    return wrong;
}

/* A pass more or less than a tuner counts on; it speaks of a whole launch, of no setting or size.
 */
int warm_up_passes(const struct bench *bench)
{
    struct situation s = {.collective = bench->collective,
                          .ranks = bench->comms[0].n_ranks,
                          .placement = bench->comms[0].placement,
                          .dtype = bench->options.dtype};
    const struct fault *f = NULL;
    int64_t passes = 1;
    while ((f = next_fault(&bench->node, f, FAULT_SHIFT, &s)) != NULL)
        passes += f->number;
    return passes > 0 ? (int)passes : 0;
}

void fault_at_init(const struct bench *bench)
{
    const struct fault *f = NULL;
    while ((f = next_fault(&bench->node, f, FAULT_INIT_ERROR, NULL)) != NULL) {
        if (f->rank < 0 || is_mine(bench, f->rank))
            test_failure(bench, NCCL_SYSTEM_ERROR, f->message);
    }
}
