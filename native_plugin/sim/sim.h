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

#include "text.h"

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

/* Path of a call.  PATH_TUNED means algorithm and protocol; every other path is taken before a
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

/* Decision of one rank for one call; equal on all ranks or the ranks wait for each other for ever.
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

extern const char *const collective_names[N_COLLECTIVES];   /* all_reduce: files, programs */
extern const char *const collective_titles[N_TUNABLE];      /* AllReduce: RCCL's log, NCCL_ALGO */
extern const char *const algorithm_names[N_ALGORITHMS];     /* tree: rule files */
extern const char *const algorithm_titles[N_ALGORITHMS];    /* TREE: RCCL's log */
extern const char *const algorithm_env_names[N_ALGORITHMS]; /* Tree: NCCL_ALGO */
extern const char *const protocol_names[N_PROTOCOLS];
extern const char *const protocol_titles[N_PROTOCOLS]; /* also NCCL_PROTO */

/* Position of a word in a table of names, -1 where it is not there. */
int find_name(struct text word, const char *const *names, int n, bool any_case);

/* Of ncclDataType_t and ncclRedOp_t the values that something depends on. */
enum { DTYPE_HALF = 6, DTYPE_FLOAT, DTYPE_BFLOAT16 = 9, DTYPE_FP8_E4M3, DTYPE_FP8_E5M2, N_DTYPES };
enum { OP_SUM, OP_PROD, OP_MAX, OP_MIN, OP_AVG, N_OPS = 6 };
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
/* Text of ncclGetErrorString for one. */
const char *result_text(int result);
enum { TEST_SUCCESS, TEST_WRONG_RESULTS, TEST_CUDA_ERROR, TEST_NCCL_ERROR, TEST_TIMEOUT };

/* Seconds of a clock that only moves on; and sleep for so many. */
double clock_now(void);
void sleep_for(double seconds);

/* End the program with a message on stderr; the simulation itself is at fault, not the library. */
enum { EXIT_SIM_SETUP = 64 };
_Noreturn void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Differences between releases of RCCL and of the benchmarks, as far as a tuner can notice.
 *
 * A release is named by its version (2.28.3); the behaviour is that of the newest family not newer
 * than it.  Source: RCCL src/plugin/tuner.cc (lookup order), nccl_common.h (log levels), enqueue.cc
 * (steps after the plugin).
 */
enum {
    OLDEST_RELEASE = 22005,
    /* NCCL_ALGO="^tree;allreduce:ring" with errors on unknown words, RCCL_OVERRIDE_ALGO and _PROTO,
     * seven algorithms, names in the TUNING line, the protocol chosen again on several nodes and
     * direct AllGather there. */
    ROCM_7_0 = 22606,
    /* A cell of exactly 0.0 skips that step, in builds since 2025-11-03 (PR #1985); on one node LL
     * for small reduce_scatter (63d58464); direct AllGather on one node. */
    ROCM_7_1 = 22707,
    /* The tuner comes before the transports, INFO is 4 at a plugin's logger instead of 3, and a
     * topology that no Rome model matches has tuning model 5 instead of 0 (#2110). */
    ROCM_7_11 = 22803,
    /* Symmetric kernels are looked for by a question to the tuner (NCCL 2.31.2
     * src/scheduler/symmetric_sched.cc).  Played as NCCL does it; RCCL's develop branch
     * (rocm-systems 19307994) has the code and leaves calls without windows out of it. */
    NCCL_2_31 = 23102
};

struct rccl_family {
    int since;
    int newest_abi; /* tuner versions looked for: newest_abi down to 2 (2.21.5: v2 only; 1: none) */
};
const struct rccl_family *rccl_family(int version);

/* Whether a release registers the buffers of captured calls where it can, and tells a tuner that
 * they are. */
bool registers_graphs(const struct rccl_family *family);

/* RT24 is rccl-tests ae3e6357 (2024-09), RTmid c0eac93f (2025), RT25 the form between RTmid and
 * RTnew that real MI355X logs show, RTnew 2.17.9 (rocm-systems 032d8f63), NT nccl-tests 2.19.6. */
enum { BENCH_RT24, BENCH_RTMID, BENCH_RT25, BENCH_RTNEW, BENCH_NT, N_BENCHES };
extern const char *const benchmark_names[N_BENCHES]; /* rt24 … nt: what a node file writes */

/* Lines of the collective's name, and a column of groups. */
static inline bool has_groups(int benchmark)
{
    return benchmark >= BENCH_RT25;
}

/* Numbers by getFloatStr instead of three fixed widths; one warm-up call of every size, doubling,
 * instead of five of the largest and the smallest; memory reserved by what is installed. */
static inline bool is_new(int benchmark)
{
    return benchmark >= BENCH_RTNEW;
}

/* "2.28.3" to 22803; 0 where it is no version of 2.20.5 or later. */
int version_code(const char *text);

#endif
