/* Start-up of the stand-in library: its environment, its log lines, a communicator. */
#include "rccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug.h"

static const char *env(const char *name)
{
    const char *value = env_text(name);
    if (value != NULL)
        debug_info(SUBSYS_ENV, "%s set by environment to %s", name, value);
    return value;
}

static int env_int(const char *name, int otherwise)
{
    const char *value = env_text(name);
    if (value != NULL)
        debug_info(SUBSYS_ENV, "%s set by environment to %s.", name, value);
    return (int)env_number(name, otherwise);
}

int library_start(struct library *library, const struct node *node, int version)
{
    memset(library, 0, sizeof *library);
    library->node = node;
    library->version = version;
    library->family = rccl_family(version);
    const char *algo = env("NCCL_ALGO"), *proto = env("NCCL_PROTO");
    bool grammar = library->family->since >= ROCM_7_0;
    library->algo_env = algo != NULL;
    library->proto_env = proto != NULL;
    int result =
        envlist_read(algo, grammar, algorithm_env_names, N_ALGORITHMS, library->limits.algorithms);
    if (result == NCCL_SUCCESS)
        result =
            envlist_read(proto, grammar, protocol_titles, N_PROTOCOLS, library->limits.protocols);
    library->limits.ll128 = node->ll128_enabled || env_int("RCCL_LL128_FORCE_ENABLE", 0) == 1;
    library->limits.tree_simple =
        is_patched("force-tree-simple") && env_int("RCCL_FORCE_TREE_SIMPLE", 0) == 1;
    /* The channel counts and the CTA counts are two names of one limit; the tighter one counts. */
    int min = env_int("NCCL_MIN_NCHANNELS", -1), max = env_int("NCCL_MAX_NCHANNELS", -1);
    int min_ctas = env_int("NCCL_MIN_CTAS", -1), max_ctas = env_int("NCCL_MAX_CTAS", -1);
    library->min_channels = min_ctas > min ? min_ctas : min;
    library->max_channels = max_ctas > 0 && (max <= 0 || max_ctas < max) ? max_ctas : max;
    if (grammar) {
        library->override_algo = env("RCCL_OVERRIDE_ALGO");
        library->override_proto = env("RCCL_OVERRIDE_PROTO");
    }
    return result;
}

void library_print_version(const struct library *library)
{
    char text[512];
    int v = library->version;
    snprintf(text, sizeof text,
             "RCCL version : %d.%d.%d-SIMULATED\nLibrccl path : simulated node %s\n", v / 10000,
             v / 100 % 100, v % 100, library->node->name);
    debug_version(text);
}

/* R28 connect.cc:816 and :914-925: the ceiling is the device's; a minimum above it (or above 64
 * with fewer than 8 ranks) is dropped with a warning, so NCCL_MIN_NCHANNELS=112 does nothing on
 * CPX. */
static int channels_of(const struct comm *comm)
{
    const struct library *library = comm->library;
    const struct node *node = library->node;
    int ceiling = node->channel_ceiling;
    int channels = graphs_of(node, comm->n_ranks, comm->n_nodes).channels;
    int min = library->min_channels, max = library->max_channels;
    if (min > ceiling || (min > 64 && comm->n_ranks < 8)) {
        debug_warn("NCCL_MIN_NCHANNELS %d is above the limit of %d channels; using 2", min,
                   ceiling);
        min = 2;
    }
    if (max > 0 && channels > max)
        channels = max;
    /* MSCCL gets as many as its schedules need, whether a call is theirs or not. */
    for (int i = 0; i < node->n_bypasses; i++) {
        const struct bypass *bypass = &node->bypasses[i];
        bool holds = bypass->where.variant < 0 || node->variants[bypass->where.variant].holds;
        if (holds && bypass->where.ranks == comm->n_ranks && min < bypass->min_channels)
            min = bypass->min_channels;
    }
    if (channels < min)
        channels = min;
    return channels > ceiling ? ceiling : channels;
}

static int model_index(const struct comm *comm)
{
    const struct node *node = comm->library->node;
    if (node->tuning_model != MODEL_AUTO)
        return node->tuning_model;
    bool matched = node->rome_model && comm->n_ranks == node->ranks;
    return matched || graph_is_matched(node, comm->n_ranks, comm->n_nodes) ||
                   comm->library->family->since >= ROCM_7_11
               ? 5
               : 0;
}

static void log_model(const struct comm *comm)
{
    for (int c = 0; c < N_TUNABLE; c++) {
        char line[512];
        int n = snprintf(line, sizeof line, "%13s |", collective_titles[c]);
        for (int a = ALGO_TREE; a <= ALGO_RING; a++) {
            for (int p = 0; p < N_PROTOCOLS; p++)
                n += snprintf(line + n, sizeof line - (size_t)n, "%8.1f/%6.1f |",
                              (double)comm->model.latency[c][a][p],
                              (double)comm->model.bandwidth[c][a][p]);
        }
        debug_info(SUBSYS_TUNING, "%s", line);
    }
}

void comm_build(struct comm *comm, struct library *library)
{
    comm->library = library;
    comm->asked = calloc((size_t)comm->n_local, sizeof *comm->asked);
    if (comm->asked == NULL)
        sim_fail("no memory for %d ranks", comm->n_local);
    comm->n_channels = channels_of(comm);
    model_build(library->node, model_index(comm), comm->n_ranks, comm->n_nodes, &library->limits,
                &comm->model);
    comm->call.collective = -1;
    if (comm->ranks[0] == 0) {
        debug_info(SUBSYS_GRAPH | SUBSYS_TUNING, "RCCL Tuning index:%d", comm->model.index);
        log_model(comm);
    }
}

/* A rank that a fault left without the plugin, or whose host has no such rule file. */
static bool lacks(int kind, const struct comm *comm, int local)
{
    const struct fault *f = NULL;
    while ((f = next_fault(comm->library->node, f, kind, NULL)) != NULL) {
        if (f->rank == comm->world_ranks[local])
            return true;
    }
    return false;
}

static int start_tuner(struct comm *comm, int local)
{
    static const char name[] = "NCCL_TUNER_CONFIG_FILE";
    const char *file = getenv(name);
    char *here = file != NULL ? strdup(file) : NULL;
    bool gone = here != NULL && lacks(FAULT_NO_FILE, comm, local);
    if (gone)
        setenv(name, "/this/host/has/no/such/file.csv", 1);
    int result = tuner_init(&comm->library->tuner, comm->id, comm->n_ranks, comm->n_nodes,
                            &comm->asked[local].context);
    if (gone)
        setenv(name, here, 1);
    free(here);
    return result;
}

int comm_init_tuner(struct comm *comm)
{
    struct library *library = comm->library;
    for (int i = 0; i < comm->n_local; i++) {
        if (library->tuner.abi == 0 || lacks(FAULT_NO_PLUGIN, comm, i))
            continue;
        int result = start_tuner(comm, i);
        if (result != NCCL_SUCCESS)
            return result;
        comm->asked[i].has_tuner = true;
    }
    return NCCL_SUCCESS;
}

void comm_log_init(const struct comm *comm)
{
    int n = comm->n_channels, per_node = comm->n_ranks / comm->n_nodes;
    unsigned long long id = comm->id;
    for (int i = 0; i < comm->n_local; i++) {
        const void *at = (const char *)comm + 4096 * i;
        int rank = comm->ranks[i], device = rank % per_node;
        if (comm->library->family->since == ROCM_7_1) { /* as 2.27.7 was seen to say it */
            debug_info(SUBSYS_INIT,
                       "comm:%p, nRanks:%d, nNodes:%d, coll channels:%d collnet channels:%d, "
                       "nvls channels:0, p2p channels:%d, p2p channels per peer:2",
                       at, comm->n_ranks, comm->n_nodes, n, n, n);
            debug_info(SUBSYS_INIT,
                       "ncclCommInitRank_impl comm %p rank %d nranks %d cudaDev %d nvmlDev %d "
                       "busId %x commId 0x%llx - Init COMPLETE",
                       at, rank, comm->n_ranks, device, device, 0x1000 * (device + 1), id);
            continue;
        }
        debug_info(SUBSYS_INIT,
                   "comm %p rank %d nRanks %d nNodes %d localRanks %d localRank %d MNNVL 0", at,
                   rank, comm->n_ranks, comm->n_nodes, per_node, device);
        debug_info(SUBSYS_INIT,
                   "%d coll channels, %d collnet channels, 0 nvls channels, %d p2p channels, "
                   "2 p2p channels per peer",
                   n, n, n);
        debug_info(SUBSYS_INIT,
                   "ncclCommInitRankConfig comm %p rank %d nranks %d cudaDev %d commId 0x%llx "
                   "- Init COMPLETE",
                   at, rank, comm->n_ranks, device, id);
    }
}

int comm_destroy(struct comm *comm)
{
    int result = NCCL_SUCCESS;
    for (int i = 0; i < comm->n_local; i++) {
        if (comm->asked[i].has_tuner) {
            int mine = tuner_finalize(&comm->library->tuner, comm->asked[i].context);
            result = result == NCCL_SUCCESS ? mine : result;
        }
    }
    free(comm->asked);
    return result;
}

struct situation comm_situation(const struct comm *comm, const struct call *call,
                                const struct decision *decision)
{
    return (struct situation){
        .collective = call->collective,
        .what = *decision,
        .ranks = comm->n_ranks,
        .placement = comm->placement,
        .in_place = call->in_place,
        .dtype = call->dtype,
        .n_bytes = call->n_bytes,
    };
}

/* The words of one list; false at an unknown one. */
static bool read_list(struct text list, const char *const *names, int n, uint8_t *mask)
{
    bool all_known = true;
    uint8_t all = (uint8_t)((1u << n) - 1), named = 0;
    bool inverted = text_length(list) > 0 && *list.at == '^';
    struct text word;
    list.at += inverted;
    while (text_split(&list, ',', &word)) {
        if (text_length(word) == 0) /* strtok knows no empty words */
            continue;
        int found = find_name(word, names, n, true);
        if (found >= 0)
            named |= (uint8_t)(1u << found);
        else
            all_known = false;
    }
    *mask = inverted ? (uint8_t)(all & ~named) : named;
    return all_known;
}

static int bad(const char *what, struct text entry, const char *text)
{
    debug_warn("%s \"%.*s\" when parsing \"%s\"", what, (int)text_length(entry), entry.at, text);
    return NCCL_INVALID_USAGE;
}

int envlist_read(const char *text, bool per_function, const char *const *names, int n,
                 uint8_t masks[N_TUNABLE])
{
    memset(masks, (1 << n) - 1, N_TUNABLE);
    if (text == NULL || *text == '\0')
        return NCCL_SUCCESS;
    struct text rest = text_of(text), entry;
    uint8_t mask;
    if (!per_function) {
        read_list(rest, names, n, &mask);
        memset(masks, mask, N_TUNABLE);
        return NCCL_SUCCESS;
    }
    bool first = true;
    while (text_split(&rest, ';', &entry)) {
        struct text whole = entry, function = {NULL, NULL};
        if (text_length(entry) == 0)
            continue;
        if (memchr(entry.at, ':', text_length(entry)) != NULL)
            text_split(&entry, ':', &function);
        else if (!first)
            return bad("All entries except the first must have a prefix:", whole, text);
        first = false;
        if (!read_list(entry, names, n, &mask))
            return bad("Unrecognized element token", whole, text);
        if (function.at == NULL) {
            memset(masks, mask, N_TUNABLE);
            continue;
        }
        int c = find_name(function, collective_titles, N_TUNABLE, true);
        if (c < 0)
            return bad("Unrecognized prefix token", function, text);
        masks[c] = mask;
    }
    return NCCL_SUCCESS;
}
