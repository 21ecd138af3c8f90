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

/* What a size on the command line becomes: elements sent, received and passed to the call. */
struct counts {
    size_t send, receive, parameter;
};

static struct counts counts_of(const struct bench *bench, size_t bytes, int dtype)
{
    size_t width = (size_t)dtype_bytes[dtype], count = bytes / width;
    size_t n = (size_t)bench->comms[0].n_ranks;
    /* rccl-tests of 2024 rounds a rank's share down to 4 elements, newer ones to 16 bytes. */
    bool fine = is_new(bench->options.family);
    size_t align = fine ? (width < 16 ? 16 / width : 1) : 4;
    size_t share = fine ? count / n / align * align : count / (align * n) * align;
    switch (bench->collective) {
    case COLL_ALL_GATHER:
    case COLL_HYPERCUBE:
        return (struct counts){share, share * n, share};
    case COLL_REDUCE_SCATTER:
        return (struct counts){share * n, share, share};
    case COLL_ALLTOALL:
        return (struct counts){count / n * n, count / n * n, count / n};
    case COLL_ALLTOALLV:
        if (count < n * n / 2)
            return (struct counts){0, 0, 0};
        return (struct counts){count / n * n, count / n * n, count / n};
    case COLL_GATHER:
        return (struct counts){count / n, count / n * n, count / n};
    case COLL_SCATTER:
        return (struct counts){count / n * n, count / n, count / n};
    default:
        return (struct counts){count, count, count};
    }
}

static size_t printed_size(struct counts counts, int dtype)
{
    size_t most = counts.send > counts.receive ? counts.send : counts.receive;
    return most * (size_t)dtype_bytes[dtype];
}

static struct call call_of(const struct bench *bench, struct counts counts, const struct row *row,
                           int dtype, int op, int in_place)
{
    const struct options *o = &bench->options;
    size_t group = o->agg_iters > 1 ? (size_t)o->agg_iters : 1;
    struct call call = {
        .collective = bench->collective,
        .dtype = dtype,
        .op = op,
        .in_place = in_place,
        .n_bytes = row->size * group,
        .count_bytes = counts.parameter * (size_t)dtype_bytes[dtype],
        .aggregated = (int)group,
        .grouped = group > 1 || o->n_gpus > 1,
        .graph = o->graph > 0,
        .registered = o->registered,
        .many_per_process = bench->ranks_per_proc > 1,
    };
    return call;
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
    const char *path = getenv("RCCLTUNE_SIM_TRUTH");
    struct situation s = comm_situation(comm, call, decision);
    if (path == NULL || *path == '\0' || bench->first_rank != 0 || call->n_bytes == 0 ||
        comm->n_ranks == 1)
        return;
    FILE *file = fopen(path, "a");
    if (file == NULL)
        sim_fail("cannot write to %s", path);
    bool tuned = decision->path == PATH_TUNED;
    fprintf(file, "%s %zu %s %s %s%s%s %d %d %s %.17g %.17g\n", collective_names[call->collective],
            call->n_bytes, call->in_place ? "in" : "out", dtype_names[call->dtype],
            tuned ? algorithm_names[decision->algorithm] : bench->node.path_names[decision->path],
            tuned ? "/" : "", tuned ? protocol_names[decision->protocol] : "", decision->cap,
            comm->n_ranks, place_names[comm->placement], true_time(&bench->node, &s, NULL),
            bench->true_us);
    fclose(file);
}

static void bench_time(struct bench *bench, const struct row *row, struct counts counts, int dtype,
                       int op, int in_place)
{
    const struct options *o = &bench->options;
    struct block block = {.call = call_of(bench, counts, row, dtype, op, in_place)};
    struct decision decision;
    /* With -m the calls of a group are one question about their sum; the check and the warm-up
     * call are alone. */
    struct call single = block.call;
    single.n_bytes = row->size;
    single.aggregated = 1;
    single.grouped = o->n_gpus > 1;
    if (o->warmup > 0)
        run_block(bench, &(struct block){.call = single, .n_calls = 1}, &decision);
    block.n_calls = o->iters;
    block.graph_launches = o->graph;
    block.timed = true;
    int group = o->agg_iters > 1 ? o->agg_iters : 1;
    struct half half = {.time_us = run_block(bench, &block, &decision) / group, .wrong = -1};
    tell_truth(bench, &block.call, &decision);
    bandwidth(bench, row->size, &half);
    if (o->check > 0) {
        int checks = o->check;
        struct situation s = comm_situation(&bench->comms[0], &single, &decision);
        int64_t wrong = wrong_elements(bench, &s, counts.receive);
        if (wrong > 0)
            checks = 1; /* the first wrong result ends them */
        run_block(
            bench,
            &(struct block){.call = single, .n_calls = checks, .graph_launches = o->graph > 0},
            &decision);
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

static void show_setting(struct bench *bench, const struct row *row, struct counts counts,
                         int dtype, int op)
{
    const char *algorithm = "N/A", *protocol = "N/A";
    int channels = 0;
    if (bench->collective < N_TUNABLE && row->size > 0) {
        struct call call = call_of(bench, counts, row, dtype, op, 0);
        call.n_bytes = row->size;
        /* Every process asks for its first communicator. */
        for (int c = bench->n_comms - 1; c >= 0; c--) {
            for (int i = bench->comms[c].n_local - 1; i >= 0; i--) {
                if ((bench->comms[c].world_ranks[i] - bench->first_rank) % bench->ranks_per_proc ==
                    0)
                    (real_is_wanted() ? real_explain : comm_explain)(
                        &bench->comms[c], i, &call, &algorithm, &protocol, &channels);
            }
        }
    }
    out_setting(algorithm, protocol, channels);
}

static void warm_up(struct bench *bench, size_t bytes, int dtype, int op, int in_place, int n_calls)
{
    struct counts counts = counts_of(bench, bytes, dtype);
    struct row row = {.size = printed_size(counts, dtype)};
    struct decision decision;
    struct block block = {.call = call_of(bench, counts, &row, dtype, op, in_place),
                          .n_calls = n_calls};
    block.call.n_bytes = row.size;
    block.call.aggregated = 1;
    block.call.grouped = bench->options.n_gpus > 1;
    run_block(bench, &block, &decision);
}

/* One in which nothing ran (-w 0) is none. */
static void next_pass(struct history *history)
{
    if (history->now.any != 0)
        history->before = history->now;
    history->now = (struct pass){0};
}

static void new_pass(struct bench *bench)
{
    bench->cycle++;
    bench->pass_began = false;
    for (int c = 0; c < bench->n_comms; c++)
        next_pass(&bench->history[c]);
}

/* All of a row's calls, and no others, are at the first size; one of 0 bytes makes no call. */
static void new_size(struct bench *bench)
{
    bench->at_first_size = !bench->pass_began;
}

/* Newer releases warm every size up, doubling whatever -f says; older ones the largest, then the
 * smallest, half of it in place. */
static void warm_up_all(struct bench *bench, int dtype, int op)
{
    const struct options *o = &bench->options;
    new_pass(bench);
    if (!is_new(o->family)) {
        bench->at_first_size = false; /* the passes to come begin with the smallest */
        warm_up(bench, o->max_bytes, dtype, op, 0, o->warmup);
        bench->at_first_size = true;
        warm_up(bench, o->min_bytes, dtype, op, 0, o->warmup / 2);
        warm_up(bench, o->min_bytes, dtype, op, 1, o->warmup - o->warmup / 2);
        return;
    }
    if (o->min_bytes == 0)
        sim_fail("-b 0 never ends: this benchmark doubles the size to warm up");
    for (size_t bytes = o->min_bytes; bytes <= o->max_bytes; bytes *= 2) {
        new_size(bench);
        warm_up(bench, bytes, dtype, op, 0, o->warmup);
    }
}

static void one_row(struct bench *bench, size_t bytes, int dtype, int op, struct row row)
{
    const struct options *o = &bench->options;
    struct counts counts = counts_of(bench, bytes, dtype);
    row.size = printed_size(counts, dtype);
    row.count = counts.parameter;
    new_size(bench);
    stray_lines(bench, false);
    out_row_start(&row);
    stray_lines(bench, true);
    if (o->out_of_place)
        bench_time(bench, &row, counts, dtype, op, 0);
    if (o->in_place)
        bench_time(bench, &row, counts, dtype, op, 1);
    if (o->show_setting)
        show_setting(bench, &row, counts, dtype, op);
    out_row_end();
    bench->n_rows++;
}

/* A job that runs on until it is killed would fill the disk with rows: its time is simulated. */
enum { MANY_CYCLES = 1000 };

static void time_test(struct bench *bench, int dtype, int op, const char *op_name, int root)
{
    const struct options *o = &bench->options;
    for (int i = warm_up_passes(bench, dtype); i > 0; i--)
        warm_up_all(bench, dtype, op);
    for (long cycle = 0; o->cycles <= 0 || cycle < o->cycles; cycle++) {
        struct row row = {.type = dtype_names[dtype], .op = op_name, .root = root};
        bool announce = o->family == BENCH_NT                                 ? false
                        : o->family == BENCH_RT24 || o->family == BENCH_RTMID ? cycle > 0
                                                                              : o->cycles > 1;
        new_pass(bench);
        if (cycle > MANY_CYCLES)
            sleep_for(0.01);
        if (announce && bench->first_rank == 0)
            printf("# Testing %lu cycle.\n", (unsigned long)cycle + 1);
        for (size_t bytes = o->min_bytes; bytes <= o->max_bytes;) {
            one_row(bench, bytes, dtype, op, row);
            size_t next = o->step_factor > 1 ? bytes * o->step_factor : bytes + o->step_bytes;
            if (next <= bytes)
                sim_fail("the sizes of this command line never end");
            bytes = next;
        }
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

void bench_run(struct bench *bench)
{
    const struct options *o = &bench->options;
    bool ops = has_op(bench->collective), roots = has_root(bench->collective);
    int last_op = ops && o->op < 0 ? N_OPS - 1 : 0, last_root = 0;
    if (roots && o->root < 0)
        last_root = bench->comms[0].n_ranks - 1;
    out_header();
    for (int t = o->dtype < 0 ? 0 : o->dtype; t <= (o->dtype < 0 ? N_DTYPES - 1 : o->dtype); t++) {
        for (int i = 0; i <= last_op; i++) {
            int op = !ops ? OP_SUM : o->op < 0 ? i : o->op;
            for (int r = 0; r <= last_root; r++)
                time_test(bench, t, op, ops ? op_names[op] : "none",
                          !roots        ? -1
                          : o->root < 0 ? r
                                        : o->root);
        }
    }
}

int bench_finish(struct bench *bench)
{
    const char *least_text = getenv("NCCL_TESTS_MIN_BW");
    double least = least_text != NULL ? atof(least_text) : -1;
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
    out_footer(bench->errors, average, least, bench->program);
    return bench->errors != 0 || average < least * 0.9 ? TEST_WRONG_RESULTS : TEST_SUCCESS;
}
