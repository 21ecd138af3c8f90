#include "host.h"

#include <dlfcn.h>
#include <stdio.h>

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
