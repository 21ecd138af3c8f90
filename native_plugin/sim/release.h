/*
 * What differs between releases of RCCL and of the benchmarks, as far as a tuner can notice.
 *
 * A release is named by its version (2.28.3); the behaviour is that of the newest family not newer
 * than it.  Source: RCCL src/plugin/tuner.cc (lookup order), nccl_common.h (log levels), enqueue.cc
 * (steps after the plugin).
 */
#ifndef RCCLTUNE_SIM_RELEASE_H
#define RCCLTUNE_SIM_RELEASE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    OLDEST_RELEASE = 22005,
    /* NCCL_ALGO="^tree;allreduce:ring" with errors on unknown words, RCCL_OVERRIDE_ALGO and _PROTO,
     * seven algorithms, names in the TUNING line, the protocol chosen again on several nodes and
     * direct AllGather there. */
    ROCM_7_0 = 22606,
    /* A cell of exactly 0.0 skips that step (PR #1985); on one node LL for reduce_scatter up to
     * 352128 B a rank (63d58464); direct AllGather on one node. */
    ROCM_7_1 = 22707,
    /* The tuner comes before the transports, INFO is 4 at a plugin's logger instead of 3, and a
     * topology that no Rome model matches has tuning model 5 instead of 0 (#2110). */
    ROCM_7_11 = 22803
};

struct rccl_family {
    int since;
    const char *rocm; /* the ROCm that ships it, for the version lines */
    int newest_abi; /* tuner versions looked for: newest_abi down to 2 (2.21.5: v2 only; 1: none) */
};
const struct rccl_family *rccl_family(int version);

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
