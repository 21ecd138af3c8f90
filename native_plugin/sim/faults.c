/* What goes wrong on purpose, in the words that the real programs use.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

void test_failure(const struct bench *bench, int nccl_result, const char *detail)
{
    static const char *const errors[] = {
        [NCCL_SUCCESS] = "no error",
        [NCCL_UNHANDLED_CUDA_ERROR] = "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        [NCCL_SYSTEM_ERROR] = "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        [NCCL_INTERNAL_ERROR] = "internal error - please report this issue to the NCCL developers",
        [NCCL_INVALID_ARGUMENT] = "invalid argument (run with NCCL_DEBUG=WARN for details)",
        [NCCL_INVALID_USAGE] = "invalid usage (run with NCCL_DEBUG=WARN for details)",
        [NCCL_REMOTE_ERROR] = "remote process exited or there was a network error",
    };
    char host[48];
    int known = nccl_result >= 0 && nccl_result <= NCCL_REMOTE_ERROR;
    host_of(bench, bench->first_rank, host, sizeof host);
    printf("%s: Test NCCL failure simulated/common.cu.cpp:1413 '%s / %s'\n", host,
           known ? errors[nccl_result] : "unknown result code", detail);
    printf(" .. %s pid %d: Test failure simulated/common.cu.cpp:1230\n", host, (int)getpid());
    fflush(stdout);
    exit(TEST_NCCL_ERROR);
}

void timed_out(const struct bench *bench)
{
    char host[48];
    host_of(bench, bench->first_rank, host, sizeof host);
    printf("%s: Test timeout (%ds) simulated/common.cu.cpp:394\n", host, bench->options.timeout);
    printf(" .. %s pid %d: Test failure simulated/common.cu.cpp:585\n", host, (int)getpid());
    fflush(stdout);
    exit(TEST_TIMEOUT);
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

static _Noreturn void crash(const struct bench *bench, const struct fault *fault)
{
    (void)bench;
    fflush(stdout);
    if (fault->crash == CRASH_EXIT)
        _exit((int)fault->number);
    if (fault->crash == CRASH_MEMORY_FAULT) {
        fputs("Memory access fault by GPU node-1 (Agent handle: 0x55d0c0ffee00) on address "
              "0x7f0000000000. Reason: Page not present or supervisor privilege.\n",
              stderr);
    }
    int number = fault->crash == CRASH_SEGV   ? SIGSEGV
                 : fault->crash == CRASH_KILL ? SIGKILL
                                              : SIGABRT;
    signal(number, SIG_DFL);
    raise(number);
    _exit(70);
}

void faults_at_call(const struct bench *bench, const struct situation *s)
{
    const struct node *node = &bench->node;
    for (int i = 0; i < node->n_faults; i++) {
        const struct fault *f = &node->faults[i];
        if (!f->active || !selector_fits(node, &f->where, s))
            continue;
        if (f->kind == FAULT_HANG && (f->rank < 0 || is_mine(bench, f->rank)))
            hang(bench);
        if (f->kind == FAULT_CRASH && is_mine(bench, f->rank < 0 ? 0 : f->rank))
            crash(bench, f);
    }
}

int64_t wrong_elements(const struct bench *bench, const struct situation *s, size_t n_received)
{
    const struct node *node = &bench->node;
    int64_t wrong = 0;
    for (int i = 0; i < node->n_faults; i++) {
        const struct fault *f = &node->faults[i];
        if (f->active && f->kind == FAULT_WRONG && selector_fits(node, &f->where, s))
            wrong += f->number + (int64_t)ceil(f->factor * (double)n_received) * s->ranks;
    }
    return wrong;
}

/* The library's log among the table's rows, as NCCL_DEBUG=INFO without a file gives it; `number` 1
 * puts a line into the middle of a row. */
void stray_lines(const struct bench *bench, bool inside_a_row)
{
    const struct node *node = &bench->node;
    for (int i = 0; i < node->n_faults; i++) {
        const struct fault *f = &node->faults[i];
        if (!f->active || f->kind != FAULT_INFO_LINES || (f->number == 1) != inside_a_row)
            continue;
        struct keys keys = keys_with_text(keys_of(bench->noise.seed), bench->noise.launch);
        if (keys_uniform(keys_with(keys, (uint64_t)bench->n_rows)) < f->factor)
            debug_stray_line(bench->n_rows);
    }
}

/* A pass more or less than a tuner counts on; it speaks of a whole launch, of no setting or size.
 */
int warm_up_passes(const struct bench *bench, int dtype)
{
    const struct node *node = &bench->node;
    struct situation s = {.collective = bench->collective,
                          .ranks = bench->comms[0].n_ranks,
                          .placement = bench->comms[0].placement,
                          .dtype = dtype};
    int64_t passes = 1;
    for (int i = 0; i < node->n_faults; i++) {
        const struct fault *f = &node->faults[i];
        if (f->active && f->kind == FAULT_SHIFT && selector_fits(node, &f->where, &s))
            passes += f->number;
    }
    return passes > 0 ? (int)passes : 0;
}

void fault_at_init(const struct bench *bench)
{
    const struct node *node = &bench->node;
    for (int i = 0; i < node->n_faults; i++) {
        const struct fault *f = &node->faults[i];
        if (f->active && f->kind == FAULT_INIT_ERROR && (f->rank < 0 || is_mine(bench, f->rank)))
            test_failure(bench, NCCL_SYSTEM_ERROR, f->message);
    }
}
