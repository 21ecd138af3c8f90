#include "rccl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "debug.h"
#include "tuner_abi.h"

/* NCCL_TUNER_PLUGIN=none is understood since 2.27.6; before, it is a name like any other. */
enum { NONE_SINCE = 22706, LOADING = SUBSYS_INIT | SUBSYS_TUNING };

/* How the name is tried: as it stands, then as <prefix>-<name>.so unless it looks like a path
 * (src/plugin/plugin_open.cc). */
static void *open_named(const char *name, const char *default_name)
{
    char full[512];
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL)
        return library;
    debug_info(LOADING, "TUNER/Plugin: %s", dlerror());
    if (strchr(name, '/') != NULL)
        return NULL;
    int prefix = (int)strlen(default_name) - 3; /* without ".so" */
    snprintf(full, sizeof full, "%.*s-%s.so", prefix, default_name, name);
    return dlopen(full, RTLD_NOW | RTLD_LOCAL);
}

static bool find_symbol(struct tuner *tuner, int newest)
{
    for (int abi = newest; abi >= 2; abi--) {
        char symbol[32];
        snprintf(symbol, sizeof symbol, "ncclTunerPlugin_v%d", abi);
        const void *table = dlsym(tuner->library, symbol);
        if (table != NULL) {
            tuner->abi = abi;
            tuner->table = table;
            const char *name = *(const char *const *)table; /* the first member in every version */
            if (tuner->family->since == ROCM_7_1)
                debug_info(LOADING, "TUNER/Plugin: Using tuner plugin %s", name);
            else
                debug_info(LOADING, "TUNER/Plugin: Using %s (v%d)", name, abi);
            return true;
        }
        debug_info(LOADING, "TUNER/Plugin: Failed to find %s symbol.", symbol);
    }
    return false;
}

void tuner_open(struct tuner *tuner, const struct rccl_family *family, int version)
{
    const char *wanted = getenv("NCCL_TUNER_PLUGIN"), *net = getenv("NCCL_NET_PLUGIN");
    const char *standard = family->since >= ROCM_7_0 ? "libnccl-tuner.so" : "librccl-tuner.so";
    tuner->family = family;
    if (family->newest_abi < 2) { /* version 1, which is not simulated (src/misc/tuner.cc) */
        if (wanted == NULL)
            return;
        debug_info(SUBSYS_TUNING, "NCCL_TUNER_PLUGIN set to %s", wanted);
        debug_info(SUBSYS_TUNING,
                   "Tuner: failed to find ncclTunerPlugin_v1 in plugin (%s), using default tuner "
                   "instead.",
                   wanted);
        return;
    }
    if (wanted != NULL && *wanted != '\0') {
        debug_info(SUBSYS_ENV | SUBSYS_TUNING,
                   family->since == ROCM_7_1 ? "TUNER/Plugin: Plugin name set by env to %s"
                                             : "NCCL_TUNER_PLUGIN set by environment to %s",
                   wanted);
        if (strcasecmp(wanted, "none") == 0 && version >= NONE_SINCE)
            return;
    } else {
        wanted = standard;
    }
    tuner->library = open_named(wanted, standard);
    if (tuner->library == NULL) {
        debug_info(LOADING, "TUNER/Plugin: Could not find: %s. Using internal tuner plugin.",
                   wanted);
        if (net != NULL && *net != '\0' && strcasecmp(net, "none") != 0)
            tuner->library = open_named(net, "librccl-net.so");
        if (tuner->library == NULL)
            return;
        wanted = net;
    }
    if (find_symbol(tuner, family->newest_abi)) {
        if (family->since != ROCM_7_1)
            debug_info(LOADING, "Successfully loaded external tuner plugin %s", wanted);
        return;
    }
    /* A library without a known symbol disables the built-in tuner as well. */
    debug_info(LOADING, "External tuner plugin %s is unsupported", wanted);
    dlclose(tuner->library);
    tuner->library = NULL;
}

void tuner_close(struct tuner *tuner)
{
    if (tuner->library != NULL)
        dlclose(tuner->library);
}

_Static_assert(offsetof(struct abi_tuner_v4, get_coll_info) ==
                   offsetof(struct abi_tuner_v5, get_coll_info),
               "v4, v5 and v6 are asked alike");

int tuner_init(const struct tuner *tuner, uint64_t comm_id, int n_ranks, int n_nodes,
               void **context)
{
    /* Room behind the published members: RCCL appends to the constants without a new version. */
    static double constants[512];
    static int domain[3];
    size_t ranks = (size_t)n_ranks, nodes = (size_t)n_nodes;
    *context = NULL;
    domain[0] = n_nodes;
    domain[1] = domain[2] = n_ranks / n_nodes;
    if (tuner->abi < 5) /* v2, v3 and v4 begin alike, and so do v5 and v6 */
        return ((const struct abi_tuner_v4 *)tuner->table)
            ->init(ranks, nodes, debug_logger, context);
    return ((const struct abi_tuner_v5 *)tuner->table)
        ->init(context, comm_id, ranks, nodes, debug_logger, (struct abi_nvl_domain_info *)domain,
               (struct abi_tuner_constants *)constants);
}

int tuner_finalize(const struct tuner *tuner, void *context)
{
    /* The fourth member in every version. */
    return ((const struct abi_tuner_v5 *)tuner->table)->finalize(context);
}

/* What a tuner hears of buffers (RCCL 2.27.7, asked): unlike NCCL it registers those that a program
 * hands it (-R 1) where a variable says so alone; windows (-R 2) never are. */
static int are_registered(const struct tuner *tuner, const struct call *call)
{
    return (call->registered == 1 && env_number("NCCL_LOCAL_REGISTER", 0) != 0) ||
           (call->graph && registers_graphs(tuner->family));
}

static int ask_v2(const struct tuner *tuner, void *context, const struct call *call,
                  int n_algorithms, float table[N_ALGORITHMS][N_PROTOCOLS], int *n_channels,
                  int *algorithm, int *protocol)
{
    const struct abi_tuner_v2 *plugin = tuner->table;
    int result = plugin->get_coll_info(context, call->collective, call->n_bytes, 0, 0,
                                       call->n_pipe_ops, algorithm, protocol, n_channels);
    /* Newer hosts turn the answer into an edit, and only of a cell that can be chosen. */
    if (tuner->family->newest_abi > 2 && *algorithm >= 0 && *algorithm < n_algorithms &&
        *protocol >= 0 && *protocol < N_PROTOCOLS) {
        if (table[*algorithm][*protocol] != -1.f)
            table[*algorithm][*protocol] = 0.f;
        *algorithm = *protocol = -1;
    }
    return result;
}

int tuner_ask(const struct tuner *tuner, void *context, const struct call *call, int n_algorithms,
              float table[N_ALGORITHMS][N_PROTOCOLS], int *n_channels, int *algorithm,
              int *protocol)
{
    float **cells = (float **)(void *)table; /* what the interface passes, although it is none */
    if (tuner->abi == 2)
        return ask_v2(tuner, context, call, n_algorithms, table, n_channels, algorithm, protocol);
    if (tuner->abi == 3)
        return ((const struct abi_tuner_v3 *)tuner->table)
            ->get_coll_info(context, call->collective, call->n_bytes, call->n_pipe_ops, cells,
                            n_algorithms, N_PROTOCOLS, n_channels);
    return ((const struct abi_tuner_v5 *)tuner->table)
        ->get_coll_info(context, call->collective, call->n_bytes, call->n_pipe_ops, cells,
                        n_algorithms, N_PROTOCOLS, are_registered(tuner, call), n_channels);
}
