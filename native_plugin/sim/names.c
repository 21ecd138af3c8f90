/* Tables of names, releases, time, and the one way in which the simulation itself gives up. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

const char *const collective_names[N_COLLECTIVES] = {
    "broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce", "alltoall",
    "alltoallv", "gather", "scatter",    "sendrecv",       "hypercube",
};
const char *const collective_titles[N_TUNABLE] = {
    "Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce",
};
const char *const algorithm_names[N_ALGORITHMS] = {
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat",
};
const char *const algorithm_titles[N_ALGORITHMS] = {
    "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT",
};
const char *const algorithm_env_names[N_ALGORITHMS] = {
    "Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT",
};
const char *const protocol_names[N_PROTOCOLS] = {"ll", "ll128", "simple"};
const char *const protocol_titles[N_PROTOCOLS] = {"LL", "LL128", "SIMPLE"};

const char *const dtype_names[N_DTYPES] = {
    "int8", "uint8", "int32",  "uint32",   "int64",    "uint64",
    "half", "float", "double", "bfloat16", "fp8_e4m3", "fp8_e5m2",
};
const int dtype_bytes[N_DTYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
const char *const op_names[N_OPS] = {"sum", "prod", "max", "min", "avg", "mulsum"};

const char *result_text(int result)
{
    static const char *const texts[] = {
        [NCCL_SUCCESS] = "no error",
        [NCCL_UNHANDLED_CUDA_ERROR] = "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        [NCCL_SYSTEM_ERROR] = "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        [NCCL_INTERNAL_ERROR] = "internal error - please report this issue to the NCCL developers",
        [NCCL_INVALID_ARGUMENT] = "invalid argument (run with NCCL_DEBUG=WARN for details)",
        [NCCL_INVALID_USAGE] = "invalid usage (run with NCCL_DEBUG=WARN for details)",
        [NCCL_REMOTE_ERROR] = "remote process exited or there was a network error",
    };
    bool known = result >= 0 && result <= NCCL_REMOTE_ERROR;
    return known ? texts[result] : "unknown result code";
}

int find_name(struct text word, const char *const *names, int n, bool any_case)
{
    for (int i = 0; i < n; i++) {
        size_t length = strlen(names[i]);
        if (length == text_length(word) &&
            (any_case ? strncasecmp : strncmp)(names[i], word.at, length) == 0)
            return i;
    }
    return -1;
}

double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void sleep_for(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    if (seconds > 0)
        nanosleep(&t, NULL);
}

void sim_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fputs("rccltune simulated node: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(EXIT_SIM_SETUP);
}

const char *const benchmark_names[N_BENCHES] = {"rt24", "rtmid", "rt25", "rtnew", "nt"};

const struct rccl_family *rccl_family(int version)
{
    /* Newest last: ROCm 6.2, 6.3, 6.4, 7.0, 7.1 and 7.2, 7.11 to 7.13, 7.14 and 10.0. */
    static const struct rccl_family families[] = {
        {OLDEST_RELEASE, 1}, {22105, 2},     {22203, 3}, {ROCM_7_0, 4},
        {ROCM_7_1, 4},       {ROCM_7_11, 5}, {23004, 6}};
    int i = sizeof families / sizeof *families - 1;
    while (i > 0 && families[i].since > version)
        i--;
    return &families[i];
}

/* By default NCCL does (2.28.9 src/enqueue.cc:258), and RCCL of ROCm 7.0 (ROCm/rccl@7383f10d; it
 * says so and registers nothing) and from 7.13 on (rocm-systems@0005e8e8 src/enqueue.cc).  Between
 * it is off (2.27.7 src/enqueue.cc:361, 2.28.3 :346); 2.28.3, which 7.13 has too, is played as
 * before it.  Older ones have it compiled out, under CUDART_VERSION >= 11030. */
bool registers_graphs(const struct rccl_family *family)
{
    bool is_off = family->since == ROCM_7_1 || family->since == ROCM_7_11;
    return family->since >= ROCM_7_0 && env_number("NCCL_GRAPH_REGISTER", !is_off) != 0;
}

int version_code(const char *text)
{
    int major, minor, patch, used = 0;
    if (sscanf(text, "%2d.%2d.%2d%n", &major, &minor, &patch, &used) != 3 || text[used] != '\0')
        return 0;
    if (major != 2 || minor < 0 || minor > 99 || patch < 0 || patch > 99)
        return 0;
    int code = major * 10000 + minor * 100 + patch;
    return code < OLDEST_RELEASE ? 0 : code;
}
