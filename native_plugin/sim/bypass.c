/*
 * Paths that a library takes before a tuner is asked, so that no rule reaches them: the node file
 * says which, but for direct all_gather, which is that of RCCL 2.26.6 to 2.30 (src/collectives.cc).
 */
#include <stdlib.h>
#include <string.h>

#include "rccl.h"

int64_t env_number(const char *name, int64_t otherwise)
{
    const char *value = getenv(name);
    return value == NULL || *value == '\0' ? otherwise : strtoll(value, NULL, 0);
}

static bool direct_takes(const struct comm *comm, const struct call *call)
{
    int since = comm->library->family->since;
    const char *disabled = getenv("RCCL_DIRECT_ALLGATHER_DISABLE");
    int64_t largest = env_number("RCCL_DIRECT_ALLGATHER_THRESHOLD", 4194304);
    /* Each call of a group for itself. */
    size_t mine = call->n_bytes / (size_t)(call->aggregated > 1 ? call->aggregated : 1);
    if (call->collective != COLL_ALL_GATHER || largest < 0 || mine > (uint64_t)largest)
        return false;
    /* Its mere presence counted in 2.28, its value does later. */
    if (disabled != NULL && (comm->library->version < 23000 || strcmp(disabled, "0") != 0))
        return false;
    if (since >= ROCM_7_1)
        return comm->n_ranks % 8 == 0;
    return since >= ROCM_7_0 && comm->n_nodes >= 2 && comm->n_nodes <= 16;
}

int bypass_path(const struct comm *comm, const struct call *call)
{
    const struct node *node = comm->library->node;
    struct decision nothing = {0};
    struct situation s = comm_situation(comm, call, &nothing);
    for (int i = 0; i < node->n_bypasses && comm->n_ranks > 1; i++) {
        struct selector where = node->bypasses[i].where;
        const char *limit = node->bypasses[i].limit;
        if (*limit != '\0')
            where.max_bytes = env_number(limit, where.max_bytes);
        if (where.max_bytes >= 0 && selector_fits(node, &where, &s))
            return node->bypasses[i].path;
    }
    if (node->library_bypasses && comm->n_ranks > 1 && direct_takes(comm, call))
        return PATH_DIRECT;
    return call->collective >= N_TUNABLE ? PATH_P2P : PATH_TUNED;
}

const char *path_title(const struct library *library, int path)
{
    return path == PATH_DIRECT ? "Direct"
           : path == PATH_DDA  ? "DDA-IPC"
                               : library->node->path_names[path];
}
