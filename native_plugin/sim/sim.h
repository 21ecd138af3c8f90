/*
 * Words that every part of the simulated node shares: collectives, algorithms, protocols and the
 * decision that a library takes for one call.
 *
 * Numbers 0-4 of the collectives and all of the algorithms and protocols are those of the tuner
 * interface (../include/tuner_abi.h); the collectives above 4 are ours, because theirs differ from
 * release to release and never reach a tuner anyway.
 */
#ifndef RCCLTUNE_SIM_H
#define RCCLTUNE_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    COLL_BROADCAST,
    COLL_REDUCE,
    COLL_ALL_GATHER,
    COLL_REDUCE_SCATTER,
    COLL_ALL_REDUCE,
    N_TUNABLE, /* the ones above ask a tuner */
    COLL_ALLTOALL = N_TUNABLE,
    COLL_ALLTOALLV,
    COLL_GATHER,
    COLL_SCATTER,
    COLL_SENDRECV,
    COLL_HYPERCUBE,
    N_COLLECTIVES
};

enum {
    ALGO_TREE,
    ALGO_RING,
    ALGO_COLLNET_DIRECT,
    ALGO_COLLNET_CHAIN,
    ALGO_NVLS,
    ALGO_NVLS_TREE,
    ALGO_PAT,
    N_ALGORITHMS
};
enum { PROTO_LL, PROTO_LL128, PROTO_SIMPLE, N_PROTOCOLS };

/* Where a call goes.  PATH_TUNED means algorithm and protocol; every other path is taken before a
 * tuner is asked or has no tuner at all (point to point). */
enum {
    PATH_TUNED,
    PATH_P2P,
    PATH_MSCCL,
    PATH_MSCCLPP,
    PATH_DIRECT,
    PATH_DDA,
    N_LIBRARY_PATHS,
    MAX_PATHS = 20
};

/* What one rank decided for one call; equal on all ranks or the ranks wait for each other for ever.
 */
struct decision {
    uint8_t path, algorithm, protocol;
    uint8_t channels; /* what runs, as the log and -A print it */
    uint8_t cap; /* channels as the node file's curves know them; 0 is the node's own default */
};

/* A set of what may run has a bit for each algorithm with its protocol, and for each path. */
static inline uint64_t setting_bit(int path, int algorithm, int protocol)
{
    int index =
        path == PATH_TUNED ? algorithm * N_PROTOCOLS + protocol : N_ALGORITHMS * N_PROTOCOLS + path;
    return (uint64_t)1 << index;
}

enum { MAX_RANKS = 1024, MAX_CHANNELS = 128 };

extern const char *const collective_names[N_COLLECTIVES];     /* all_reduce: files and programs */
extern const char *const collective_titles[N_COLLECTIVES];    /* AllReduce: rccl-tests and RCCL */
extern const char *const collective_csv_names[N_COLLECTIVES]; /* allreduce: rule files, NCCL_ALGO */
extern const char *const algorithm_names[N_ALGORITHMS];       /* tree: rule files */
extern const char *const algorithm_titles[N_ALGORITHMS];      /* TREE: RCCL's log */
extern const char *const algorithm_env_names[N_ALGORITHMS];   /* Tree: NCCL_ALGO, any case */
extern const char *const protocol_names[N_PROTOCOLS];
extern const char *const protocol_titles[N_PROTOCOLS]; /* also NCCL_PROTO, any case */

/* Position of a word in a table of names, -1 where it is not there; `word` is not terminated. */
int find_name(const char *word, size_t length, const char *const *names, int n);
int find_name_any_case(const char *word, size_t length, const char *const *names, int n);

enum {
    DTYPE_INT8,
    DTYPE_UINT8,
    DTYPE_INT32,
    DTYPE_UINT32,
    DTYPE_INT64,
    DTYPE_UINT64,
    DTYPE_HALF,
    DTYPE_FLOAT,
    DTYPE_DOUBLE,
    DTYPE_BFLOAT16,
    DTYPE_FP8_E4M3,
    DTYPE_FP8_E5M2,
    N_DTYPES
};
enum { OP_SUM, OP_PROD, OP_MAX, OP_MIN, OP_AVG, OP_MULSUM, N_OPS };
extern const char *const dtype_names[N_DTYPES];
extern const int dtype_bytes[N_DTYPES];
extern const char *const op_names[N_OPS];

/* Results of a library call (ncclResult_t) and of a benchmark (rccl-tests src/common.h). */
enum {
    NCCL_SUCCESS,
    NCCL_UNHANDLED_CUDA_ERROR,
    NCCL_SYSTEM_ERROR,
    NCCL_INTERNAL_ERROR,
    NCCL_INVALID_ARGUMENT,
    NCCL_INVALID_USAGE,
    NCCL_REMOTE_ERROR
};
enum { TEST_SUCCESS, TEST_WRONG_RESULTS, TEST_CUDA_ERROR, TEST_NCCL_ERROR, TEST_TIMEOUT };

/* Seconds of a clock that only moves on; and sleep for so many. */
double clock_now(void);
void sleep_for(double seconds);

/* End the program with a message on stderr; the simulation itself is at fault, not the library. */
enum { EXIT_SIM_SETUP = 64 };
_Noreturn void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
