/*
 * Paths that the library takes before a tuner is asked, so that no rule reaches them.
 * Facts: RCCL 2.20 to 2.30 src/enqueue.cc, src/collectives.cc, src/misc/msccl/msccl_lifecycle.cc,
 * with the releases and switches named below; RCCLX in bypass_rcclx.c.
 */
#include <stdlib.h>
#include <string.h>

#include "rccl.h"

int64_t env_number(const char *name, int64_t otherwise)
{
    const char *value = getenv(name);
    return value == NULL || *value == '\0' ? otherwise : strtoll(value, NULL, 0);
}

/* Of MSCCL and MSCCL++ alike. */
static bool msccl_is_on(const struct library *library)
{
    int level = library->family->msccl;
    return level > 0 && env_number("RCCL_MSCCL_ENABLE", level == 2) != 0;
}

static bool msccl_is_forced(void)
{
    return env_number("RCCL_MSCCL_FORCE_ENABLE", 0) == 1;
}

/* MSCCL knows one MI300X node of 8 GPUs: its shipped schedules are for AllReduce up to 20 MiB and
 * AlltoAll up to 43 MiB, one process a GPU; CPX matches no Rome model and has none. */
static bool msccl_takes(const struct comm *comm, const struct call *call)
{
    const struct library *library = comm->library;
    bool forced = msccl_is_forced();
    if (!msccl_is_on(library) || !(library->node->rome_model || forced) || call->op >= OP_AVG)
        return false;
    if (call->many_per_process && env_number("RCCL_MSCCL_ENABLE_SINGLE_PROCESS", 0) == 0)
        return false;
    if (getenv("MSCCL_ALGO_DIR") != NULL)
        return false; /* a site's own schedules: what they take is a bypass of the node file */
    if (call->collective == COLL_ALL_GATHER)
        return forced && (comm->n_ranks == 16 || comm->n_ranks == 32);
    if (comm->n_nodes != 1 || comm->n_ranks != 8)
        return false;
    if (call->collective == COLL_ALL_REDUCE)
        return call->n_bytes <= 20971520;
    return call->collective == COLL_ALLTOALL && call->n_bytes <= 45088768;
}

/* MSCCL++: in graph mode, with registered buffers or by force, whatever else is set; a non-zero
 * multiple of 32 bytes a rank up to the threshold; AllReduce sums of five types, AllGather of all
 * but FP8.  RCCL_MSCCL_ENABLE=0 takes it away as well. */
static bool mscclpp_takes(const struct comm *comm, const struct call *call)
{
    const struct library *library = comm->library;
    int64_t usual = library->version < 22203 ? 1048576 : 16777216;
    uint64_t largest = (uint64_t)env_number("RCCL_MSCCLPP_THRESHOLD", usual);
    bool gather = call->collective == COLL_ALL_GATHER;
    size_t mine = gather ? call->n_bytes / (size_t)comm->n_ranks : call->n_bytes;
    if (!library->family->mscclpp || !msccl_is_on(library) ||
        env_number("RCCL_MSCCLPP_ENABLE", 1) == 0)
        return false;
    if (!call->graph && !call->registered && env_number("RCCL_MSCCLPP_FORCE_ENABLE", 0) == 0)
        return false;
    if (comm->n_nodes != 1 || comm->n_ranks != 8 || call->many_per_process)
        return false;
    if (mine == 0 || mine % 32 != 0 || call->n_bytes > largest)
        return false;
    if (gather)
        return call->dtype != DTYPE_FP8_E4M3 && call->dtype != DTYPE_FP8_E5M2;
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
    /* Each call of a group for itself. */
    size_t mine = call->n_bytes / (size_t)(call->aggregated > 1 ? call->aggregated : 1);
    if (call->collective != COLL_ALL_GATHER || largest < 0 || mine > (uint64_t)largest)
        return false;
    /* Its mere presence counted in 2.28, its value does later. */
    if (disabled != NULL && (comm->library->version < 23000 || strcmp(disabled, "0") != 0))
        return false;
    if (family->direct_one_node)
        return comm->n_ranks % 8 == 0;
    return family->direct_many_nodes && comm->n_nodes >= 2 && comm->n_nodes <= 16;
}

/* RCCLX has it as well, but there it must be asked for. */
static bool dda_takes(const struct comm *comm, const struct call *call)
{
    const struct library *library = comm->library;
    bool relaxed = env_number("RCCL_DDA_NRANKS_RELAX", 0) != 0, rcclx = library->node->rcclx;
    if (!(library->family->dda || rcclx) || env_number("RCCL_DDA_ENABLE", !rcclx) == 0 ||
        library->algo_env)
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

static int library_path(const struct comm *comm, const struct call *call)
{
    int path = comm->library->node->rcclx ? rcclx_path(comm, call) : PATH_TUNED;
    if (path != PATH_TUNED)
        return path;
    if (mscclpp_takes(comm, call))
        return PATH_MSCCLPP;
    if (msccl_takes(comm, call))
        return PATH_MSCCL;
    if (dda_takes(comm, call))
        return PATH_DDA;
    return direct_takes(comm, call) ? PATH_DIRECT : PATH_TUNED;
}

int bypass_path(const struct comm *comm, const struct call *call)
{
    const struct node *node = comm->library->node;
    struct decision nothing = {0};
    struct situation s = comm_situation(comm, call, &nothing);
    int path = PATH_TUNED;
    for (int i = 0; i < node->n_bypasses; i++) {
        if (selector_fits(node, &node->bypasses[i].where, &s))
            return node->bypasses[i].path;
    }
    if (node->library_bypasses && comm->n_ranks > 1)
        path = library_path(comm, call);
    if (path != PATH_TUNED)
        return path;
    return call->collective >= N_TUNABLE ? PATH_P2P : PATH_TUNED;
}

const char *path_title(const struct library *library, int path)
{
    switch (path) {
    case PATH_DIRECT:
        return "Direct";
    case PATH_DDA:
        return "DDA-IPC";
    case PATH_DDA_FLAT:
    case PATH_DDA_TREE:
    case PATH_LOW_PRECISION:
    case PATH_P2P_GATHER:
        return NULL;
    default:
        return library->node->path_names[path];
    }
}
