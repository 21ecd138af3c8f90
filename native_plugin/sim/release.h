/*
 * What differs between releases of RCCL and of the benchmarks, as far as a tuner can notice.
 *
 * A release is named by its version (2.28.3); the behaviour is that of the newest family not newer
 * than it.  Source: RCCL src/plugin/tuner.cc (lookup order), nccl_common.h (log levels), enqueue.cc
 * (steps after the plugin), 5.4 (bypasses), 8 (benchmarks).
 */
#ifndef RCCLTUNE_SIM_RELEASE_H
#define RCCLTUNE_SIM_RELEASE_H

#include <stdbool.h>
#include <stddef.h>

enum { OLDEST_RELEASE = 22005 };

struct rccl_family {
    const char *rocm; /* the ROCm that ships it, for the version lines */
    int newest_abi; /* tuner versions looked for: newest_abi down to 2 (2.21.5: v2 only; 1: none) */
    int n_algorithms; /* rows of the cost table: 6 through 2.22, 7 since */
    int info_level;   /* INFO at the plugin's logger: 3, and 4 since RCCL 2.28.3 */
    bool tuner_before_transports;
    bool
        per_function_env; /* NCCL_ALGO="^tree;allreduce:ring" and errors on unknown words (2.24+) */
    bool override_env;    /* RCCL_OVERRIDE_ALGO and _PROTO (ROCm 7.0+) */
    bool multi_node_protocol;     /* rcclUpdateCollectiveProtocol for several nodes (ROCm 7.0+) */
    bool exact_zero_wins;         /* a cell of exactly 0.0 skips that step (PR #1985) */
    bool small_reduce_scatter_ll; /* one node, <= 352128 B a rank: LL (63d58464) */
    bool new_tuning_line;  /* "AllReduce: N Bytes -> Algo RING proto LL channel{..}" (2.24+) */
    bool csv_tuner;        /* the built-in CSV tuner */
    bool strict_csv_tuner; /* its newer form: unknown names and header rows are skipped */
    int msccl;             /* 0 gone, 1 off by default, 2 on by default */
    bool mscclpp;
    bool direct_one_node; /* direct AllGather also inside one node (2.28+) */
    bool direct_many_nodes;
    bool dda;
    int unmatched_model; /* tuning model of a topology that no Rome model matches: 0, 5 since #2110
                          */
    const char *default_plugin;
};

enum { BENCH_RT24, BENCH_RTMID, BENCH_RT25, BENCH_RTNEW, BENCH_NT, N_BENCHES };

struct benchmark_family {
    const char *name;    /* rt24 … nt: what a node file writes */
    const char *options; /* getopt's string */
    int default_warmup;
    bool fine_numbers;    /* getFloatStr of RTnew and NT instead of three fixed widths */
    bool warm_every_size; /* all sizes from the smallest, doubling; else largest, then smallest */
    bool starting_line, group_column, version_after_hash, errors_line;
    bool unalign;         /* "unalign: 0" at the end of the parameter line */
    bool reserves_memory; /* 1 GiB per 16 GiB installed, at most 4, plus 1; else 1 GiB flat */
};

const struct rccl_family *rccl_family(int version);
const struct benchmark_family *benchmark_family(int family);
int benchmark_by_name(const char *name, size_t length); /* -1 where unknown */

/* "2.28.3" to 22803; 0 where it is no version of 2.20.5 or later. */
int version_code(const char *text);

#endif
