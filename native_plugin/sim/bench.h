/* The benchmark itself: which calls are made in which order, and what time they took. */
#ifndef RCCLTUNE_SIM_BENCH_H
#define RCCLTUNE_SIM_BENCH_H

#include "history.h"
#include "launch.h"
#include "rccl.h"

/*
 * The command line of rccl-tests and nccl-tests, in each release's letters and with their faults:
 * an unknown option prints the usage and exits 0.  Source: rccl-tests src/common.cu.
 */
struct options {
    int family; /* BENCH_* */
    int n_threads, n_gpus;
    size_t min_bytes, max_bytes, step_bytes;
    int step_factor, iters, agg_iters, warmup, cycles, check;
    int op, dtype, root;
    int graph, timeout, registered, show_setting;
    bool out_of_place, in_place;
};

/* Fills `options`, or ends the program as the benchmark would. */
void options_read(struct options *options, int family, const char *program, int argc, char **argv);

/*
 * Output of the benchmark: stdout's table in each family's format.  Every form says SIMULATED.
 * Source: rccl-tests src/common.cu, nccl-tests 2.19.6 src/.
 */
struct half { /* one half of a row */
    double time_us, algbw, busbw;
    int64_t wrong; /* -1: not checked */
};

enum { MAX_GROUPS = 64 };

struct bench {
    struct options options;
    struct node node;
    struct library library;
    struct launch launch;
    struct noise noise;
    int collective;
    const char *program;
    int ranks_per_proc, n_ranks; /* of all processes together */
    int first_rank, n_local;     /* this process's */
    int n_nodes;
    int visible[MAX_RANKS], n_visible; /* devices of a host, in the order of *_VISIBLE_DEVICES */
    int group[MAX_RANKS];              /* NCCL_TESTS_SPLIT's colour by rank */
    int local_ranks[MAX_RANKS], local_world_ranks[MAX_RANKS];
    struct comm comms[MAX_GROUPS];
    int n_comms;
    int members[MAX_GROUPS][MAX_RANKS]; /* world ranks of each communicator */
    /* Between blocks. */
    double clock;   /* simulated seconds since the sweep began */
    uint64_t cycle; /* counts every pass over the sizes, the warm-up is one */
    struct history history[MAX_GROUPS];
    bool pass_began, at_first_size; /* a call of this pass was made; this is its first size */
    double true_us;                 /* of the last block, without noise, behind what ran before */
    int errors;
    double busbw_sum;
    int n_busbw;
};

/* A block is what the benchmark waits for together: warm-up calls, or the timed iterations. */
struct block {
    struct call call;
    int n_calls;
    int graph_launches; /* 0 where the calls are not captured */
};

/* Set-up and end: main.c calls them in this order. */
void bench_setup(struct bench *bench, int argc, char **argv);
void bench_print_start(struct bench *bench);
void bench_init_library(struct bench *bench);
void bench_run(struct bench *bench);
int bench_finish(struct bench *bench);

/* output.c: all of it on process 0 only. */
void out_start(const struct bench *bench); /* before any other */
void out_device(int rank, int pid);
void out_header(void);
void out_cycle(long cycle);
void out_row_start(size_t bytes, size_t count, const char *op, int root);
void out_half(const struct half *half);
void out_setting(const char *algorithm, const char *protocol, int channels); /* -A */
void out_row_end(void);
void out_footer(void);

/* block.c: issue the calls on every rank of this process, compare all ranks' decisions, and return
 * the mean microseconds of a call over the ranks. */
void tell_ran(const struct comm *comm, int local, const struct decision *decision,
              const struct call *call, int blocks);
double run_block(struct bench *bench, const struct block *block, struct decision *decision);

/* faults.c */
_Noreturn void test_failure(const struct bench *bench, int nccl_result, const char *detail);
_Noreturn void hang(const struct bench *bench); /* for ever, or until -T ends it */
_Noreturn void timed_out(const struct bench *bench);
void faults_at_call(const struct bench *bench, const struct situation *s);
int64_t wrong_elements(const struct bench *bench, const struct situation *s, size_t n_received);
void fault_at_init(const struct bench *bench);
int warm_up_passes(const struct bench *bench); /* one, where nothing goes wrong */

/* The device of its host that a rank has. */
int device_of(const struct bench *bench, int rank);

/* The simulated host name of a rank. */
const char *host_of(const struct bench *bench, int rank, char *text, size_t size);

#endif
