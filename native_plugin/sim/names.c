/* Tables of names, time, and the one way in which the simulation itself gives up. */
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
const char *const collective_titles[N_COLLECTIVES] = {
    "Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "AlltoAll",
    "AlltoAllv", "Gather", "Scatter",   "SendRecv",      "HyperCube",
};
const char *const collective_csv_names[N_COLLECTIVES] = {
    "broadcast", "reduce", "allgather", "reducescatter", "allreduce", "alltoall",
    "alltoallv", "gather", "scatter",   "sendrecv",      "hypercube",
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

int find_name(const char *word, size_t length, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], word, length) == 0)
            return i;
    }
    return -1;
}

int find_name_any_case(const char *word, size_t length, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        if (strlen(names[i]) == length && strncasecmp(names[i], word, length) == 0)
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
