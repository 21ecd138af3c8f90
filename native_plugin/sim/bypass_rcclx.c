/*
 * What RCCLX puts before RCCL's own paths.  Facts: torchcomms comms/rcclx/develop at 2f44ee5d,
 * meta/algorithms/AlgoInit.cc (names and defaults), comms/common/algorithms/all_reduce
 * (conditions), projects/rccl/src/collectives.cc and meta/lpcoll (low precision).  The same file
 * offers AllGather, ReduceScatter and AlltoAll by direct access in Meta's internal builds only, so
 * RCCL_ENABLE_DDA_ALL_GATHER and the like change nothing here.
 */
#include <stdlib.h>
#include <string.h>

#include "rccl.h"

enum { LOW_PRECISION_FROM = 16 << 20 };

static bool is_one(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && strcmp(value, "1") == 0;
}

static bool low_precision_is_on(int collective)
{
    /* The switches of single collectives came later than the one of all. */
    static const char *const own[N_COLLECTIVES] = {
        [COLL_ALL_REDUCE] = "RCCL_LOW_PRECISION_ENABLE_ALLREDUCE",
        [COLL_ALL_GATHER] = "RCCL_LOW_PRECISION_ENABLE_ALLGATHER",
        [COLL_REDUCE_SCATTER] = "RCCL_LOW_PRECISION_ENABLE_REDUCESCATTER",
        [COLL_ALLTOALL] = "RCCL_LOW_PRECISION_ENABLE_ALLTOALL",
    };
    return own[collective] != NULL &&
           (is_one("RCCL_LOW_PRECISION_ENABLE") || is_one(own[collective]));
}

static int low_precision_path(const struct call *call)
{
    bool reduces = call->collective == COLL_ALL_REDUCE || call->collective == COLL_REDUCE_SCATTER;
    if (!low_precision_is_on(call->collective))
        return PATH_TUNED;
    if ((call->dtype == DTYPE_FLOAT || call->dtype == DTYPE_BFLOAT16) &&
        call->n_bytes >= LOW_PRECISION_FROM && (!reduces || call->op == OP_SUM))
        return PATH_LOW_PRECISION;
    return call->collective == COLL_ALL_GATHER ? PATH_P2P_GATHER : PATH_TUNED;
}

/* Flat up to a size, tree up to a larger one, where each rank's share is a multiple of 16 bytes.
 * Its buffers are exchanged between processes, so it is off where one process has several ranks. */
static int direct_access_path(const struct comm *comm, const struct call *call)
{
    int64_t bytes = (int64_t)call->n_bytes, width = dtype_bytes[call->dtype];
    int64_t count = bytes / width, ranks = comm->n_ranks;
    if (call->collective != COLL_ALL_REDUCE || call->op != OP_SUM ||
        env_number("RCCL_ENABLE_DDA_ALL_REDUCE", 1) == 0)
        return PATH_TUNED;
    if (comm->n_nodes != 1 || ranks != env_number("RCCL_DDA_NRANKS", 8) || call->many_per_process)
        return PATH_TUNED;
    if (call->dtype != DTYPE_FLOAT && call->dtype != DTYPE_HALF && call->dtype != DTYPE_BFLOAT16)
        return PATH_TUNED;
    if (bytes % 16 != 0 || bytes > env_number("RCCL_DDA_SENDBUF_BYTES", 32 << 20) ||
        bytes > env_number("RCCL_DDA_ALL_REDUCE_TREE_MAX_BYTES", 29 << 20))
        return PATH_TUNED;
    if (bytes <= env_number("RCCL_DDA_ALL_REDUCE_FLAT_MAX_BYTES", 200 << 10))
        return PATH_DDA_FLAT;
    return count % ranks == 0 && count / ranks * width % 16 == 0 ? PATH_DDA_TREE : PATH_TUNED;
}

int rcclx_path(const struct comm *comm, const struct call *call)
{
    int path = low_precision_path(call);
    return path != PATH_TUNED ? path : direct_access_path(comm, call);
}
