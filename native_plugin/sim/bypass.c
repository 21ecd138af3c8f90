/*
 * Paths that the library takes before a tuner is asked, so that no rule reaches them.
 * Facts: RCCL 2.20 to 2.30 src/enqueue.cc, src/collectives.cc, with the releases and switches named
 * below.
 */
#include <stdlib.h>
#include <string.h>

#include "rccl.h"

static int env_number(const char *name, int otherwise)
{
    const char *value = getenv(name);
    return value == NULL || *value == '\0' ? otherwise : (int)strtol(value, NULL, 0);
}

/* MSCCL knows one MI300X node of 8 GPUs: its shipped schedules are for AllReduce up to 20 MiB and
 * AlltoAll up to 43 MiB, one process a GPU; CPX matches no Rome model and has none. */
static bool msccl_takes(const struct comm *comm, const struct call *call)
{
    const struct library *library = comm->library;
    int level = library->family->msccl;
    bool forced = env_number("RCCL_MSCCL_FORCE_ENABLE", 0) == 1;
    if (level == 0 || env_number("RCCL_MSCCL_ENABLE", level == 2) == 0)
        return false;
    if (call->many_per_process && env_number("RCCL_MSCCL_ENABLE_SINGLE_PROCESS", 0) == 0)
        return false;
    if (call->collective == COLL_ALL_GATHER)
        return forced && (comm->n_ranks == 16 || comm->n_ranks == 32);
    if (comm->n_nodes != 1 || comm->n_ranks != 8 || !(library->node->rome_model || forced))
        return false;
    if (call->collective == COLL_ALL_REDUCE)
        return call->n_bytes <= 20971520;
    return call->collective == COLL_ALLTOALL && call->n_bytes <= 45088768;
}

/* MSCCL++: asked for by RCCL_MSCCLPP_ENABLE=1, or in graph mode and with registered buffers unless
 * that is 0; non-zero multiples of 32 bytes up to the threshold; AllReduce sums of five types. */
static bool mscclpp_takes(const struct comm *comm, const struct call *call)
{
    const struct library *library = comm->library;
    const char *threshold = getenv("RCCL_MSCCLPP_THRESHOLD");
    size_t largest = library->version < 22203 ? 1048576 : 16777216;
    bool asked = call->graph || call->registered;
    if (!library->family->mscclpp || env_number("RCCL_MSCCLPP_ENABLE", asked) == 0)
        return false;
    if (threshold != NULL && *threshold != '\0')
        largest = (size_t)strtoull(threshold, NULL, 0);
    if (comm->n_nodes != 1 || comm->n_ranks != 8 || call->many_per_process)
        return false;
    if (call->n_bytes == 0 || call->n_bytes % 32 != 0 || call->n_bytes > largest)
        return false;
    if (call->collective == COLL_ALL_GATHER)
        return true;
    return call->collective == COLL_ALL_REDUCE && call->op == OP_SUM &&
           (call->dtype == DTYPE_HALF || call->dtype == DTYPE_INT32 ||
            call->dtype == DTYPE_UINT32 || call->dtype == DTYPE_FLOAT ||
            call->dtype == DTYPE_BFLOAT16);
}

static bool direct_takes(const struct comm *comm, const struct call *call)
{
    const struct rccl_family *family = comm->library->family;
    const char *disabled = getenv("RCCL_DIRECT_ALLGATHER_DISABLE");
    int64_t largest = env_number("RCCL_DIRECT_ALLGATHER_THRESHOLD", 4194304);
    if (call->collective != COLL_ALL_GATHER || largest < 0 || call->n_bytes > (uint64_t)largest)
        return false;
    /* Its mere presence counted in 2.28, its value does later. */
    if (disabled != NULL && (comm->library->version < 23000 || strcmp(disabled, "0") != 0))
        return false;
    if (family->direct_one_node)
        return comm->n_ranks % 8 == 0;
    return family->direct_many_nodes && comm->n_nodes >= 2 && comm->n_nodes <= 16;
}

static bool dda_takes(const struct comm *comm, const struct call *call)
{
    const struct library *library = comm->library;
    bool relaxed = env_number("RCCL_DDA_NRANKS_RELAX", 0) != 0;
    if (!library->family->dda || env_number("RCCL_DDA_ENABLE", 1) == 0 || library->algo_env)
        return false;
    if (comm->n_nodes != 1 || call->grouped || comm->n_ranks > 8 ||
        (comm->n_ranks != 8 && !relaxed))
        return false;
    switch (call->collective) {
    case COLL_ALL_REDUCE:
        return call->n_bytes <= 8388608 && call->n_bytes % 16 == 0 && call->op == OP_SUM &&
               (call->dtype == DTYPE_FLOAT || call->dtype == DTYPE_HALF ||
                call->dtype == DTYPE_BFLOAT16);
    case COLL_ALL_GATHER:
    case COLL_REDUCE_SCATTER:
        return call->n_bytes <= 8388608;
    default:
        return call->collective == COLL_ALLTOALL && call->n_bytes <= 4194304;
    }
}

int bypass_path(const struct comm *comm, const struct call *call)
{
    const struct node *node = comm->library->node;
    struct decision nothing = {0};
    struct situation s = comm_situation(comm, call, &nothing);
    for (int i = 0; i < node->n_bypasses; i++) {
        if (selector_fits(node, &node->bypasses[i].where, &s))
            return node->bypasses[i].path;
    }
    if (node->library_bypasses && comm->n_ranks > 1) {
        if (mscclpp_takes(comm, call))
            return PATH_MSCCLPP;
        if (msccl_takes(comm, call))
            return PATH_MSCCL;
        if (dda_takes(comm, call))
            return PATH_DDA;
        if (direct_takes(comm, call))
            return PATH_DIRECT;
    }
    return call->collective >= N_TUNABLE ? PATH_P2P : PATH_TUNED;
}
