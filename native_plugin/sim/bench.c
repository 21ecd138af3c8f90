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

/* What a collective makes of a size and of n ranks: how many shares a rank sends and receives, how
 * often a link carries a part of (n - 1)/n (0: all of it, once), and which columns mean something.
 */
enum { ALL_OF_IT, A_PART, A_ROUND_PART };
static const struct {
    int share;
    bool sends_all, receives_all; /* as many shares as there are ranks */
    int parts;
    bool has_op, has_root;
} shapes[N_COLLECTIVES] = {
    [COLL_BROADCAST] = {.has_root = true},
    [COLL_REDUCE] = {.has_op = true, .has_root = true},
    [COLL_ALL_GATHER] = {.share = A_ROUND_PART, .receives_all = true, .parts = 1},
    [COLL_REDUCE_SCATTER] = {.share = A_ROUND_PART, .sends_all = true, .parts = 1, .has_op = true},
    [COLL_ALL_REDUCE] = {.parts = 2, .has_op = true},
    [COLL_ALLTOALL] = {.share = A_PART, .sends_all = true, .receives_all = true, .parts = 1},
    [COLL_ALLTOALLV] = {.share = A_PART, .sends_all = true, .receives_all = true, .parts = 1},
    [COLL_GATHER] = {.share = A_PART, .receives_all = true, .parts = 1, .has_root = true},
    [COLL_SCATTER] = {.share = A_PART, .sends_all = true, .parts = 1, .has_root = true},
    [COLL_SENDRECV] = {.has_op = true},
    [COLL_HYPERCUBE] = {.share = A_ROUND_PART, .receives_all = true},
};

/* What a size on the command line becomes: elements received and passed to the call; and bytes as
 * they are printed. */
struct counts {
    size_t receive, parameter, bytes;
};

static struct counts counts_of(const struct bench *bench, size_t bytes)
{
    size_t width = (size_t)dtype_bytes[bench->options.dtype], count = bytes / width;
    size_t n = (size_t)bench->comms[0].n_ranks;
    /* rccl-tests of 2024 rounds a rank's share down to 4 elements, newer ones to 16 bytes. */
    bool fine = is_new(bench->options.family);
    size_t align = fine ? (width < 16 ? 16 / width : 1) : 4;
    int share = shapes[bench->collective].share;
    if (bench->collective == COLL_ALLTOALLV && count < n * n / 2)
        return (struct counts){0};
    if (share == A_ROUND_PART)
        count = fine ? count / n / align * align : count / (align * n) * align;
    else if (share == A_PART)
        count /= n;
    size_t send = shapes[bench->collective].sends_all ? count * n : count;
    size_t receive = shapes[bench->collective].receives_all ? count * n : count;
    return (struct counts){receive, count, (send > receive ? send : receive) * width};
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
    int parts = shapes[bench->collective].parts;
    half->algbw = half->time_us > 0 ? (double)size / half->time_us / 1000 : 0;
    if (bench->collective == COLL_HYPERCUBE)
        half->algbw *= (n - 1) / n;
    half->busbw = half->algbw * (parts > 0 ? parts * (n - 1) / n : 1);
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
    for (int c = 0; c < bench->n_comms; c++)
        history_new_pass(&bench->history[c]);
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
        bench->at_first_size = !bench->pass_began;
        warm_up(bench, bytes, 0, o->warmup);
    }
}

static void one_row(struct bench *bench, size_t bytes)
{
    const struct options *o = &bench->options;
    struct counts counts = counts_of(bench, bytes);
    /* All of a row's calls, and no others, are at the first size; one of 0 bytes makes no call. */
    bench->at_first_size = !bench->pass_began;
    out_row_start(counts.bytes, counts.parameter,
                  shapes[bench->collective].has_op ? op_names[o->op] : "none",
                  shapes[bench->collective].has_root ? o->root : -1);
    if (o->out_of_place)
        bench_time(bench, counts, 0);
    if (o->in_place)
        bench_time(bench, counts, 1);
    if (o->show_setting)
        show_setting(bench, counts);
    out_row_end();
}

void bench_run(struct bench *bench)
{
    const struct options *o = &bench->options;
    out_header();
    for (int i = warm_up_passes(bench); i > 0; i--)
        warm_up_all(bench);
    for (long cycle = 0; o->cycles <= 0 || cycle < o->cycles; cycle++) {
        new_pass(bench);
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
    for (int c = 0; c < bench->n_comms; c++) {
        struct comm *comm = &bench->comms[c];
        bool is_real = comm->real != NULL;
        int result = is_real ? real_destroy(comm) : comm_destroy(comm);
        if (result != NCCL_SUCCESS)
            test_failure(bench, result, is_real ? real_last_error() : debug_last_error());
    }
    tuner_close(&bench->library.tuner);
    out_footer();
    return bench->errors != 0 ? TEST_WRONG_RESULTS : TEST_SUCCESS;
}
