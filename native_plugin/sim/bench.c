/*
 * The passes over the sizes, in the order of each benchmark release: which calls are made matters,
 * because a tuner counts them.  rccl-tests src/common.cu TimeTest and BenchTime.
 */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug.h"
#include "real.h"
#include "text.h"

/* What a size on the command line becomes: elements sent, received and passed to the call; and
 * bytes as they are printed. */
struct counts {
    size_t send, receive, parameter, bytes;
};

static struct counts counts_of(const struct bench *bench, size_t bytes)
{
    size_t width = (size_t)dtype_bytes[bench->options.dtype], count = bytes / width;
    size_t n = (size_t)bench->comms[0].n_ranks;
    /* rccl-tests of 2024 rounds a rank's share down to 4 elements, newer ones to 16 bytes. */
    bool fine = is_new(bench->options.family);
    size_t align = fine ? (width < 16 ? 16 / width : 1) : 4;
    size_t share = fine ? count / n / align * align : count / (align * n) * align;
    struct counts c = {count, count, count, 0};
    switch (bench->collective) {
    case COLL_ALL_GATHER:
    case COLL_HYPERCUBE:
        c = (struct counts){share, share * n, share, 0};
        break;
    case COLL_REDUCE_SCATTER:
        c = (struct counts){share * n, share, share, 0};
        break;
    case COLL_ALLTOALL:
    case COLL_ALLTOALLV:
        c = (struct counts){count / n * n, count / n * n, count / n, 0};
        if (bench->collective == COLL_ALLTOALLV && count < n * n / 2)
            c = (struct counts){0};
        break;
    case COLL_GATHER:
        c = (struct counts){count / n, count / n * n, count / n, 0};
        break;
    case COLL_SCATTER:
        c = (struct counts){count / n * n, count / n, count / n, 0};
        break;
    default:
        break;
    }
    c.bytes = (c.send > c.receive ? c.send : c.receive) * width;
    return c;
}

/* With -m the calls of a group are one question about their sum. */
static struct call call_of(const struct bench *bench, struct counts counts, int in_place, int group)
{
    const struct options *o = &bench->options;
    return (struct call){
        .collective = bench->collective,
        .dtype = o->dtype,
        .op = o->op,
        .in_place = in_place,
        .n_bytes = counts.bytes * (size_t)group,
        .count_bytes = counts.parameter * (size_t)dtype_bytes[o->dtype],
        .aggregated = group,
        .graph = o->graph > 0,
        .registered = o->registered,
    };
}

static void bandwidth(const struct bench *bench, size_t size, struct half *half)
{
    double n = bench->comms[0].n_ranks;
    double base = half->time_us > 0 ? (double)size / half->time_us / 1000 : 0, factor = 1;
    switch (bench->collective) {
    case COLL_ALL_REDUCE:
        factor = 2 * (n - 1) / n;
        break;
    case COLL_ALL_GATHER:
    case COLL_REDUCE_SCATTER:
    case COLL_ALLTOALL:
    case COLL_ALLTOALLV:
    case COLL_GATHER:
    case COLL_SCATTER:
        factor = (n - 1) / n;
        break;
    case COLL_HYPERCUBE:
        base *= (n - 1) / n;
        break;
    default:
        break;
    }
    half->algbw = base;
    half->busbw = base * factor;
}

/* In-place AlltoAll has nothing to check against; -c 0 checks nothing. */
static bool is_checked(const struct bench *bench, int in_place)
{
    bool exchange = bench->collective == COLL_ALLTOALL || bench->collective == COLL_ALLTOALLV;
    return bench->options.check > 0 && !(exchange && in_place);
}

/* What the node file says of the block that was just timed, one line a half of a row: as if nothing
 * had run before, and behind what really did. */
static void tell_truth(const struct bench *bench, const struct call *call,
                       const struct decision *decision)
{
    const struct comm *comm = &bench->comms[0];
    struct situation s = comm_situation(comm, call, decision);
    if (bench->first_rank != 0 || call->n_bytes == 0 || comm->n_ranks == 1)
        return;
    FILE *file = env_append("RCCLTUNE_SIM_TRUTH");
    if (file == NULL)
        return;
    fprintf(file, "%s %zu %s %s %s %d %d %s %.17g %.17g\n", collective_names[call->collective],
            call->n_bytes, call->in_place ? "in" : "out", dtype_names[call->dtype],
            decision_name(&bench->node, decision), decision->cap, comm->n_ranks,
            place_names[comm->placement], true_time(&bench->node, &s), bench->true_us);
    fclose(file);
}

static void bench_time(struct bench *bench, struct counts counts, int in_place)
{
    const struct options *o = &bench->options;
    int group = o->agg_iters > 1 ? o->agg_iters : 1;
    /* The check and the warm-up call are alone. */
    const struct call single = call_of(bench, counts, in_place, 1);
    const struct call timed = call_of(bench, counts, in_place, group);
    struct decision decision;
    struct half half = {.wrong = -1};
    if (o->warmup > 0)
        run_block(bench, &(struct block){single, 1, 0}, &decision);
    half.time_us = run_block(bench, &(struct block){timed, o->iters, o->graph}, &decision) / group;
    tell_truth(bench, &timed, &decision);
    bandwidth(bench, counts.bytes, &half);
    if (o->check > 0) {
        struct situation s = comm_situation(&bench->comms[0], &single, &decision);
        int64_t wrong = wrong_elements(bench, &s, counts.receive);
        int checks = wrong > 0 ? 1 : o->check; /* the first wrong result ends them */
        run_block(bench, &(struct block){single, checks, o->graph > 0}, &decision);
        if (wrong > 0 && is_checked(bench, in_place))
            bench->errors += bench->n_ranks / bench->ranks_per_proc; /* every process counts it */
        /* The real library's kernels are launched and not run: there is nothing to compare. */
        if (is_checked(bench, in_place) && !real_is_wanted())
            half.wrong = wrong;
    }
    out_half(&half);
    bench->busbw_sum += half.busbw;
    bench->n_busbw++;
}

static void show_setting(struct bench *bench, struct counts counts)
{
    const char *algorithm = "N/A", *protocol = "N/A";
    const struct call call = call_of(bench, counts, 0, 1);
    int channels = 0;
    bool asks = bench->collective < N_TUNABLE && counts.bytes > 0;
    /* Every process asks for its first communicator. */
    for (int c = bench->n_comms - 1; c >= 0 && asks; c--) {
        for (int i = bench->comms[c].n_local - 1; i >= 0; i--) {
            if ((bench->comms[c].world_ranks[i] - bench->first_rank) % bench->ranks_per_proc == 0)
                (real_is_wanted() ? real_explain : comm_explain)(&bench->comms[c], i, &call,
                                                                 &algorithm, &protocol, &channels);
        }
    }
    out_setting(algorithm, protocol, channels);
}

static void warm_up(struct bench *bench, size_t bytes, int in_place, int n_calls)
{
    struct call call = call_of(bench, counts_of(bench, bytes), in_place, 1);
    struct decision decision;
    run_block(bench, &(struct block){call, n_calls, 0}, &decision);
}

static void new_pass(struct bench *bench)
{
    bench->cycle++;
    bench->pass_began = false;
    for (int c = 0; c < bench->n_comms; c++) {
        struct history *history = &bench->history[c];
        if (history->now.any != 0) /* one in which nothing ran (-w 0) is none */
            history->before = history->now;
        history->now = (struct pass){0};
    }
}

/* All of a row's calls, and no others, are at the first size; one of 0 bytes makes no call. */
static void new_size(struct bench *bench)
{
    bench->at_first_size = !bench->pass_began;
}

/* Newer releases warm every size up, doubling whatever -f says; older ones the largest, then the
 * smallest, half of it in place. */
static void warm_up_all(struct bench *bench)
{
    const struct options *o = &bench->options;
    new_pass(bench);
    if (!is_new(o->family)) {
        bench->at_first_size = false; /* the passes to come begin with the smallest */
        warm_up(bench, o->max_bytes, 0, o->warmup);
        bench->at_first_size = true;
        warm_up(bench, o->min_bytes, 0, o->warmup / 2);
        warm_up(bench, o->min_bytes, 1, o->warmup - o->warmup / 2);
        return;
    }
    if (o->min_bytes == 0)
        sim_fail("-b 0 never ends: this benchmark doubles the size to warm up");
    for (size_t bytes = o->min_bytes; bytes <= o->max_bytes; bytes *= 2) {
        new_size(bench);
        warm_up(bench, bytes, 0, o->warmup);
    }
}

/* Which of operation and root a collective runs over, and what stands in their columns. */
static bool has_op(int collective)
{
    return collective == COLL_ALL_REDUCE || collective == COLL_REDUCE ||
           collective == COLL_REDUCE_SCATTER || collective == COLL_SENDRECV;
}

static bool has_root(int collective)
{
    return collective == COLL_BROADCAST || collective == COLL_REDUCE || collective == COLL_GATHER ||
           collective == COLL_SCATTER;
}

static void one_row(struct bench *bench, size_t bytes)
{
    const struct options *o = &bench->options;
    struct counts counts = counts_of(bench, bytes);
    new_size(bench);
    out_row_start(counts.bytes, counts.parameter,
                  has_op(bench->collective) ? op_names[o->op] : "none",
                  has_root(bench->collective) ? o->root : -1);
    if (o->out_of_place)
        bench_time(bench, counts, 0);
    if (o->in_place)
        bench_time(bench, counts, 1);
    if (o->show_setting)
        show_setting(bench, counts);
    out_row_end();
}

/* A job that runs on until it is killed would fill the disk with rows: its time is simulated. */
enum { MANY_CYCLES = 1000 };

void bench_run(struct bench *bench)
{
    const struct options *o = &bench->options;
    out_header();
    for (int i = warm_up_passes(bench); i > 0; i--)
        warm_up_all(bench);
    for (long cycle = 0; o->cycles <= 0 || cycle < o->cycles; cycle++) {
        new_pass(bench);
        if (cycle > MANY_CYCLES)
            sleep_for(0.01);
        out_cycle(cycle);
        for (size_t bytes = o->min_bytes; bytes <= o->max_bytes;) {
            one_row(bench, bytes);
            size_t next =
                o->step_factor > 1 ? bytes * (size_t)o->step_factor : bytes + o->step_bytes;
            if (next <= bytes)
                sim_fail("the sizes of this command line never end");
            bytes = next;
        }
    }
}

int bench_finish(struct bench *bench)
{
    double average = bench->n_busbw > 0 ? bench->busbw_sum / bench->n_busbw : 0;
    for (int c = 0; c < bench->n_comms; c++) {
        struct comm *comm = &bench->comms[c];
        bool is_real = comm->real != NULL;
        int result = is_real ? real_destroy(comm) : comm_destroy(comm);
        if (result != NCCL_SUCCESS)
            test_failure(bench, result, is_real ? real_last_error() : debug_last_error());
        free(bench->members[c]);
    }
    if (bench->library.tuner_opened)
        tuner_close(&bench->library.tuner);
    debug_stop();
    out_footer(bench->errors, average, bench->program);
    return bench->errors != 0 ? TEST_WRONG_RESULTS : TEST_SUCCESS;
}
