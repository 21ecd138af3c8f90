#include "host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { MAX_CELLS = 64, WHOLE = 1024 /* NCCL_SYM_KERNEL_CELL_SIZE */ };

bool host_load(struct host *host, const char *path, int version)
{
    char name[32];
    (void)snprintf(name, sizeof name, "ncclTunerPlugin_v%d", version);
    *host = (struct host){.version = version, .library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    host->symbol = host->library == NULL ? NULL : dlsym(host->library, name);
    return host->symbol != NULL;
}

int host_init(struct host *host, size_t n_ranks, size_t n_nodes)
{
    host->n_ranks = n_ranks;
    switch (host->version) {
    case 2:
        return ((const struct abi_tuner_v2 *)host->symbol)
            ->init(n_ranks, n_nodes, host->logger, &host->context);
    case 3:
        return ((const struct abi_tuner_v3 *)host->symbol)
            ->init(n_ranks, n_nodes, host->logger, &host->context);
    case 4:
        return ((const struct abi_tuner_v4 *)host->symbol)
            ->init(n_ranks, n_nodes, host->logger, &host->context);
    case 5:
        return ((const struct abi_tuner_v5 *)host->symbol)
            ->init(&host->context, 0xabcdef, n_ranks, n_nodes, host->logger, NULL, NULL);
    case 6:
        return ((const struct abi_tuner_v6 *)host->symbol)
            ->init(&host->context, 0xabcdef, n_ranks, n_nodes, host->logger, NULL, NULL);
    default:
        return ((const struct abi_tuner_v7 *)host->symbol)
            ->init(&host->context, 0xabcdef, n_ranks, n_nodes, host->logger, NULL, NULL);
    }
}

static int ask_v2(struct host *host, struct host_call *call)
{
    int algorithm = -1;
    int protocol = -1;
    int result = ((const struct abi_tuner_v2 *)host->symbol)
                     ->get_coll_info(host->context, call->collective, call->n_bytes, 0, 0,
                                     call->n_pipe_ops, &algorithm, &protocol, &call->n_channels);
    if (algorithm >= 0 && protocol >= 0) {
        call->table[algorithm * call->n_protocols + protocol] = 0.0F;
    }
    return result;
}

int host_ask(struct host *host, struct host_call *call)
{
    float **table = (float **)(void *)call->table; /* as the hosts cast it */
    switch (host->version) {
    case 2:
        return ask_v2(host, call);
    case 3:
        return ((const struct abi_tuner_v3 *)host->symbol)
            ->get_coll_info(host->context, call->collective, call->n_bytes, call->n_pipe_ops, table,
                            call->n_algorithms, call->n_protocols, &call->n_channels);
    case 4:
        return ((const struct abi_tuner_v4 *)host->symbol)
            ->get_coll_info(host->context, call->collective, call->n_bytes, call->n_pipe_ops, table,
                            call->n_algorithms, call->n_protocols, call->reg_buff,
                            &call->n_channels);
    case 5:
        return ((const struct abi_tuner_v5 *)host->symbol)
            ->get_coll_info(host->context, call->collective, call->n_bytes, call->n_pipe_ops, table,
                            call->n_algorithms, call->n_protocols, call->reg_buff,
                            &call->n_channels);
    case 6:
        return ((const struct abi_tuner_v6 *)host->symbol)
            ->get_coll_info(host->context, call->collective, call->n_bytes, call->n_pipe_ops, table,
                            call->n_algorithms, call->n_protocols, call->reg_buff,
                            &call->n_channels);
    default:
        return ((const struct abi_tuner_v7 *)host->symbol)
            ->get_coll_info(host->context, call->collective, call->n_bytes, call->n_pipe_ops, table,
                            call->n_algorithms, call->n_protocols, call->reg_buff,
                            &call->n_channels);
    }
}

/* ncclSymkImplemented (2.31.2 src/sym_kernels.cc:268), of a sum of floats. */
static bool has_symmetric_kernel(enum host_release release, int collective)
{
    return release != HOST_2_30 &&
           (collective == ABI_ALL_GATHER || collective == ABI_REDUCE_SCATTER ||
            collective == ABI_ALL_REDUCE);
}

/* A question of src/scheduler/symmetric_sched.cc:173-200 (2.31.2), whose bytes are those of one
 * rank in whole KiB; `cells` NULL: none can be chosen. */
static int ask_for_symmetric(struct host *host, enum host_release release,
                             const struct host_call *call, const float *cells)
{
    float table[MAX_CELLS];
    bool is_of_parts = call->collective != ABI_ALL_REDUCE;
    size_t bytes = is_of_parts ? call->n_bytes / host->n_ranks : call->n_bytes;
    struct host_call question = *call;
    for (int i = 0; i < MAX_CELLS; i++) {
        table[i] = -1.0F;
    }
    if (cells != NULL) {
        memcpy(table, cells, (size_t)(call->n_algorithms * call->n_protocols) * sizeof *cells);
    }
    question.n_bytes = (bytes + WHOLE - 1) / WHOLE * WHOLE;
    question.n_pipe_ops = release == HOST_LATER ? call->n_pipe_ops : 0;
    question.table = table;
    return host_ask(host, &question);
}

int host_issue(struct host *host, enum host_release release, struct host_call *call)
{
    int result = ABI_SUCCESS;
    if (has_symmetric_kernel(release, call->collective)) {
        result = ask_for_symmetric(host, release, call, NULL);
        if (result == ABI_SUCCESS) { /* src/tuning/tuning.cc:289 */
            result = ask_for_symmetric(host, release, call, call->table);
        }
    }
    return result == ABI_SUCCESS ? host_ask(host, call) : result;
}

int host_issue_in_windows(struct host *host, enum host_release release,
                          const struct host_call *call)
{
    return has_symmetric_kernel(release, call->collective)
               ? ask_for_symmetric(host, release, call, NULL)
               : ABI_SUCCESS;
}

int host_finalize(struct host *host)
{
    void *context = host->context;
    host->context = NULL;
    switch (host->version) {
    case 2:
    case 3:
    case 4: /* the same place in all three */
        return ((const struct abi_tuner_v4 *)host->symbol)->destroy(context);
    default:
        return ((const struct abi_tuner_v5 *)host->symbol)->finalize(context);
    }
}
