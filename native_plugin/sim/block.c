/*
 * One block of calls: every rank of this process decides each of them, all ranks compare, and the
 * node file says how long it took.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "debug.h"
#include "real.h"

/* Decisions in a row that are equal; a block nearly always has one such run. */
struct run {
    struct decision decision;
    int n;
};
enum { MAX_RUNS = 256 };

/* Without a plugin every call of a block has one answer; only the log wants to see each. */
static bool calls_are_alike(const struct comm *comm)
{
    if (comm->real != NULL)
        return getenv("NCCL_TUNER_PLUGIN") == NULL && getenv("NCCL_DEBUG") == NULL;
    return comm->library->tuner.abi == 0 && !debug_at(LEVEL_INFO);
}

/* All calls of one rank; returns how many runs they are. */
static int decide_calls(struct bench *bench, struct comm *comm, int local, int n_calls,
                        struct run *runs)
{
    bool all_alike = calls_are_alike(comm);
    int n = 0;
    for (int i = 0; i < n_calls && !(all_alike && i > 0); i++) {
        struct decision decision;
        int result = comm->real != NULL ? real_decide(comm, local, &decision)
                                        : comm_decide(comm, local, &decision);
        if (result != NCCL_SUCCESS)
            test_failure(bench, result, debug_last_error());
        if (n > 0 && memcmp(&runs[n - 1].decision, &decision, sizeof decision) == 0)
            runs[n - 1].n++;
        else if (n < MAX_RUNS)
            runs[n++] = (struct run){decision, all_alike ? n_calls : 1};
    }
    return n;
}

static uint64_t digest_of(const struct run *runs, int n)
{
    uint64_t digest = keys_of(0);
    for (int i = 0; i < n; i++) {
        const struct decision *d = &runs[i].decision;
        digest = keys_with(digest, (uint64_t)runs[i].n << 40 | (uint64_t)d->path << 32 |
                                       (uint64_t)d->algorithm << 24 | (uint64_t)d->protocol << 16 |
                                       (uint64_t)d->channels << 8 | d->cap);
    }
    return digest;
}

/* Mean microseconds of a call of this communicator, before the noise of single ranks. */
static double comm_time(struct bench *bench, int index, const struct block *block,
                        const struct run *runs, int n_runs, struct situation *first)
{
    const struct comm *comm = &bench->comms[index];
    struct history *history = &bench->history[index];
    double total = 0, extra = 0;
    for (int i = 0; i < n_runs; i++) {
        struct situation s = comm_situation(comm, &block->call, &runs[i].decision);
        history_recall(history, bench->at_first_size, &s);
        double time = noise_free_time(&bench->node, &s);
        total += runs[i].n * time;
        extra += runs[i].n * history_first_use(history, &bench->node, &runs[i].decision, runs[i].n);
        faults_at_call(bench, &s);
        history_remember(history, bench->at_first_size, &runs[i].decision);
        if (i == 0)
            *first = s;
        if (i == 0 && index == 0)
            bench->true_us = time;
    }
    double factor = block_factor(&bench->node, &bench->noise, first, bench->cycle, bench->clock);
    return (total * factor + extra) / block->n_calls;
}

/* Every rank must have decided alike for every call, or all wait for each other for ever. */
static void compare(const struct bench *bench, int comm)
{
    const int *members = bench->members[comm];
    uint64_t digest = launch_slot(members[0])->digest;
    for (int i = 1; i < bench->comms[comm].n_ranks; i++) {
        if (launch_slot(members[i])->digest != digest)
            hang(bench);
    }
}

static double mean_over_ranks(const struct bench *bench)
{
    double sum = 0;
    for (int r = 0; r < bench->n_ranks; r++)
        sum += launch_slot(r)->time_us;
    return sum / bench->n_ranks;
}

/* RCCLTUNE_SIM_RAN=FILE: a line for every call of every rank, as the library said it: rank,
 * collective, bytes, setting or path, channels, blocks of the kernel. */
void tell_ran(const struct comm *comm, int local, const struct decision *d, const struct call *call,
              int blocks)
{
    FILE *file = call->n_bytes > 0 ? env_append("RCCLTUNE_SIM_RAN") : NULL;
    if (file == NULL)
        return;
    fprintf(file, "%d %s %zu %s %d %d\n", comm->world_ranks[local],
            collective_names[call->collective], call->n_bytes,
            decision_name(comm->library->node, d), d->channels, blocks);
    fclose(file);
}

static void issue_really(const struct bench *bench, struct comm *comm, const struct block *block)
{
    int n_calls = calls_are_alike(comm) ? 1 : block->n_calls;
    int result = real_issue(comm, &block->call, n_calls, block->graph_launches);
    if (result != NCCL_SUCCESS)
        test_failure(bench, result, real_last_error());
}

double run_block(struct bench *bench, const struct block *block, struct decision *decision)
{
    *decision = (struct decision){.path = PATH_P2P};
    if (block->n_calls <= 0)
        return 0;
    for (int c = 0; c < bench->n_comms; c++) {
        struct comm *comm = &bench->comms[c];
        struct run runs[MAX_RUNS];
        struct situation first = {0};
        double time = 0.05;
        uint64_t keys = 0;
        if (comm->real == NULL)
            comm_prepare(comm, &block->call);
        else
            issue_really(bench, comm, block);
        for (int i = 0; i < comm->n_local; i++) {
            struct slot *slot = launch_slot(comm->world_ranks[i]);
            /* Nothing is enqueued for nothing, and one rank alone only copies: no tuner is asked.
             */
            int n_runs = 0;
            if (block->call.n_bytes > 0)
                n_runs = decide_calls(bench, comm, i, block->n_calls, runs);
            slot->digest = digest_of(runs, n_runs);
            if (i == 0 && n_runs > 0) {
                time = comm_time(bench, c, block, runs, n_runs, &first);
                keys = rank_keys(&bench->noise, &first, bench->cycle);
                if (c == 0)
                    *decision = runs[0].decision;
                if (comm->real == NULL) {
                    struct decision told = runs[0].decision;
                    told.channels =
                        (uint8_t)busy_channels(comm, &comm->call, told.protocol, told.channels);
                    tell_ran(comm, i, &told, &block->call, told.channels);
                }
            }
            slot->time_us = n_runs == 0 ? time
                                        : time * rank_factor(&bench->node, &bench->noise, keys,
                                                             comm->world_ranks[i]);
        }
    }
    if (!meet(bench->options.timeout))
        timed_out(bench);
    for (int c = 0; c < bench->n_comms; c++)
        compare(bench, c);
    double mean = mean_over_ranks(bench);
    int launches = block->graph_launches > 1 ? block->graph_launches : 1;
    bench->pass_began |= block->call.n_bytes > 0;
    bench->clock += 1e-6 * mean * block->n_calls * launches;
    launch_barrier();
    return mean;
}
