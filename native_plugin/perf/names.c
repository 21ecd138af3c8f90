#include "perf.h"

#include <string.h>
#include <strings.h>

const char *const collective_names[N_COLLECTIVES] = {
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv"};
const char *const type_names[N_TYPES] = {"int8",   "uint8",    "int32",    "uint32",
                                         "int64",  "uint64",   "half",     "float",
                                         "double", "bfloat16", "fp8_e4m3", "fp8_e5m2"};
const char *const op_names[N_OPS] = {"sum", "prod", "max", "min", "avg", "mulsum"};
const size_t type_bytes[N_TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
const char *const algorithm_names[N_ALGORITHMS] = {
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
const char *const protocol_names[N_PROTOCOLS] = {"ll", "ll128", "simple"};

int position_of(const char *word, size_t length, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        if (strlen(names[i]) == length && strncasecmp(names[i], word, length) == 0)
            return i;
    }
    return -1;
}
