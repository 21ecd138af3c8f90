/*
 * How the stand-in library chooses for one call: the cost table, the tuner's edit, the pick, and
 * the steps after it in the library's order (RCCL 2.28.3
 * src/enqueue.cc topoGetAlgoInfo and src/rccl_wrap.cc).
 */
#include <stdio.h>
#include <string.h>

#include "debug.h"
#include "rccl.h"

static const float longest_us = 3.6e9f;

/* Rows of the cost table. */
static int n_algorithms_of(const struct library *library)
{
    return library->family->since >= ROCM_7_0 ? N_ALGORITHMS : N_ALGORITHMS - 1;
}

static void fill_table(struct comm *comm)
{
    const struct call *call = &comm->call;
    const struct library *library = comm->library;
    for (int a = 0; a < N_ALGORITHMS; a++) {
        for (int p = 0; p < N_PROTOCOLS; p++)
            comm->table[a][p] = comm->n_ranks == 1 ? -1.f
                                                   : model_time(&comm->model, call->collective, a,
                                                                p, call->n_bytes, call->n_pipe_ops);
    }
    if (comm->n_ranks == 1) {
        comm->table[ALGO_RING][PROTO_SIMPLE] = 0;
        return;
    }
    /* R28 enqueue.cc:2137: every ring cell, the ineligible ones too, which become -1024. */
    bool fp8 = call->dtype == DTYPE_FP8_E4M3 || call->dtype == DTYPE_FP8_E5M2;
    if (fp8 && comm->n_ranks > 8 && library->family->since >= ROCM_7_11) {
        for (int p = 0; p < N_PROTOCOLS; p++)
            comm->table[ALGO_RING][p] *= 1024.f;
    }
}

void comm_prepare(struct comm *comm, const struct call *call)
{
    comm->call = *call;
    comm->call.n_pipe_ops = (call->aggregated + comm->n_channels - 1) / comm->n_channels;
    comm->bypass = bypass_path(comm, call);
    if (comm->bypass == PATH_TUNED)
        fill_table(comm);
}

/* Strictly lowest cell that is not below zero; ties go to the lower algorithm, then protocol. */
static float pick(const struct comm *comm, float table[N_ALGORITHMS][N_PROTOCOLS], int *algorithm,
                  int *protocol)
{
    const float *cells = &table[0][0];
    int n = n_algorithms_of(comm->library) * N_PROTOCOLS, best = -1;
    float lowest = longest_us;
    for (int i = 0; i < n; i++) {
        if (cells[i] >= 0 && cells[i] < lowest) {
            lowest = cells[i];
            best = i;
        }
    }
    if (best >= 0) {
        *algorithm = best / N_PROTOCOLS;
        *protocol = best % N_PROTOCOLS;
        return lowest;
    }
    /* Nothing can be chosen: before 2.24 the fastest ring, since then ring and simple. */
    *algorithm = ALGO_RING;
    *protocol = PROTO_SIMPLE;
    lowest = longest_us;
    for (int p = 0; p < N_PROTOCOLS && comm->library->family->since < ROCM_7_0; p++) {
        float time = model_backup_time(&comm->model, comm->call.collective, p, comm->call.n_bytes);
        if (time >= 0 && time < lowest) {
            lowest = time;
            *protocol = p;
        }
    }
    return -1;
}

/* rcclUpdateCollectiveProtocol: off under NCCL_PROTO, and under a tuner's exact zero where the
 * release knows that. */
static int update_protocol(const struct comm *comm, bool matched, int protocol)
{
    const struct library *library = comm->library;
    const struct call *call = &comm->call;
    if (library->proto_env || (library->family->since >= ROCM_7_1 && matched))
        return protocol;
    bool all_reduce = call->collective == COLL_ALL_REDUCE;
    int64_t size = (int64_t)(all_reduce ? call->n_bytes : call->n_bytes / (size_t)comm->n_ranks);
    if (comm->n_nodes == 1) {
        bool small = library->family->since >= ROCM_7_1 && size <= 352128;
        return small && call->collective == COLL_REDUCE_SCATTER ? PROTO_LL : protocol;
    }
    if (library->family->since < ROCM_7_0 || comm->model.index == 0)
        return protocol;
    struct protocol_range ll = model_protocol_range(comm->model.index, call->collective, PROTO_LL);
    struct protocol_range ll128 =
        model_protocol_range(comm->model.index, call->collective, PROTO_LL128);
    if (all_reduce && comm->n_nodes > 2)
        ll128.max = (int64_t)((double)ll128.max * 3.8);
    if (library->limits.ll128 && size > ll128.min && size <= ll128.max)
        return PROTO_LL128; /* also where the two overlap */
    return size > ll.min && size <= ll.max ? PROTO_LL : PROTO_SIMPLE;
}

/* Channels shrink until each thread has its threshold of bytes. */
static int shrink_channels(const struct comm *comm, int algorithm, int protocol)
{
    int channels = wanted_channels(comm, &comm->call, algorithm, protocol, comm->n_channels);
    int min = comm->library->min_channels; /* also one that was refused at start */
    if (channels < min)
        channels = min < comm->n_channels ? min : comm->n_channels;
    return channels;
}

/* `cost` is that of the cell which the wanted word would lead to. */
static int override(const char *variable, const char *wanted, int found, float cost, int *value)
{
    if (found < 0) {
        debug_warn("Invalid algo or protocol string passed in %s: %s", variable, wanted);
        return NCCL_INVALID_USAGE;
    }
    if (cost == -1.f)
        debug_warn("%s=%s is not available for this collective; not applied", variable, wanted);
    else
        *value = found;
    return NCCL_SUCCESS;
}

/* RCCL_OVERRIDE_ALGO, then RCCL_OVERRIDE_PROTO, last of all; an ineligible cell stays as it was. */
static int apply_overrides(const struct comm *comm, float table[N_ALGORITHMS][N_PROTOCOLS],
                           int *algorithm, int *protocol)
{
    const struct library *l = comm->library;
    int result = NCCL_SUCCESS;
    if (l->override_algo != NULL) {
        int a = find_name_any_case(l->override_algo, strlen(l->override_algo), algorithm_titles,
                                   n_algorithms_of(l));
        result = override("RCCL_OVERRIDE_ALGO", l->override_algo, a,
                          a < 0 ? 0 : table[a][*protocol], algorithm);
    }
    if (result == NCCL_SUCCESS && l->override_proto != NULL) {
        int p = find_name_any_case(l->override_proto, strlen(l->override_proto), protocol_titles,
                                   N_PROTOCOLS);
        result = override("RCCL_OVERRIDE_PROTO", l->override_proto, p,
                          p < 0 ? 0 : table[*algorithm][p], protocol);
    }
    return result;
}

static int finish(const struct comm *comm, float table[N_ALGORITHMS][N_PROTOCOLS], int algorithm,
                  int protocol, bool matched, int n_channels, struct decision *decision)
{
    protocol = update_protocol(comm, matched, protocol);
    int channels = shrink_channels(comm, algorithm, protocol);
    int result = apply_overrides(comm, table, &algorithm, &protocol);
    int cap = comm->n_channels;
    if (n_channels >= 1) {
        channels = n_channels < comm->n_channels ? n_channels : comm->n_channels;
        cap = channels;
    }
    *decision = (struct decision){
        .path = PATH_TUNED,
        .algorithm = (uint8_t)algorithm,
        .protocol = (uint8_t)protocol,
        .channels = (uint8_t)channels,
        .cap = (uint8_t)(cap == comm->library->node->channels ? 0 : cap),
    };
    return result;
}

static void substitute(const struct comm *comm, int local, struct decision *decision)
{
    const struct node *node = comm->library->node;
    for (int i = 0; i < node->n_faults; i++) {
        const struct fault *f = &node->faults[i];
        if (!f->active || (f->kind != FAULT_SUBSTITUTE && f->kind != FAULT_DIFFERS))
            continue;
        if (f->rank >= 0 && f->rank != comm->world_ranks[local])
            continue;
        struct situation s = comm_situation(comm, &comm->call, decision);
        if (!selector_fits(node, &f->where, &s))
            continue;
        decision->path = (uint8_t)f->path;
        if (f->path == PATH_TUNED) {
            decision->algorithm = (uint8_t)f->algorithm;
            decision->protocol = (uint8_t)f->protocol;
        }
    }
}

static void log_choice(const struct comm *comm, const struct decision *d, float cost)
{
    if (comm->library->family->since >= ROCM_7_0)
        debug_info(SUBSYS_TUNING, "%s: %ld Bytes -> Algo %s proto %s channel{Lo..Hi}={0..%d}",
                   collective_titles[comm->call.collective], (long)comm->call.count_bytes,
                   algorithm_titles[d->algorithm], protocol_titles[d->protocol],
                   busy_channels(comm, &comm->call, d->protocol, d->channels) - 1);
    else
        debug_info(SUBSYS_TUNING, "%ld Bytes -> Algo %d proto %d time %f", (long)comm->call.n_bytes,
                   d->algorithm, d->protocol, (double)cost);
}

/* What a tuner hears of buffers (RCCL 2.27.7, asked): unlike NCCL it registers those that a program
 * hands it (-R 1) and a graph's where a variable says so alone; windows (-R 2) never are. */
static int are_registered(const struct call *call)
{
    return (call->registered == 1 && env_number("NCCL_LOCAL_REGISTER", 0) != 0) ||
           (call->graph && env_number("NCCL_GRAPH_REGISTER", 0) != 0);
}

static int decide(struct comm *comm, int local, struct decision *decision, float *cost)
{
    const struct library *library = comm->library;
    const struct call *call = &comm->call;
    float table[N_ALGORITHMS][N_PROTOCOLS];
    int algorithm = -1, protocol = -1, n_channels = 0, result = NCCL_SUCCESS;
    *cost = 0;
    memcpy(table, comm->table, sizeof table);
    bool tuned = comm->has_tuner[local] && comm->n_ranks > 1;
    if (tuned) {
        struct tuner_call question = {call->collective, call->n_bytes, call->n_pipe_ops,
                                      are_registered(call), n_algorithms_of(library)};
        result = tuner_ask(&library->tuner, comm->contexts[local], &question, table, &n_channels,
                           &algorithm, &protocol);
        if (result != NCCL_SUCCESS)
            return result; /* NCCLCHECK(getCollInfo): the collective fails */
    }
    bool answered =
        algorithm >= 0 && protocol >= 0 && algorithm < N_ALGORITHMS && protocol < N_PROTOCOLS;
    if (!answered)
        *cost = pick(comm, table, &algorithm, &protocol);
    bool matched = tuned && *cost == 0.f && !answered;
    return finish(comm, table, algorithm, protocol, matched, n_channels, decision);
}

/* What sends and receives uses the communicator's channels; the others start kernels of their own.
 */
static bool has_channels(int path)
{
    return path == PATH_P2P || path == PATH_DIRECT || path >= N_LIBRARY_PATHS;
}

int comm_decide(struct comm *comm, int local, struct decision *decision)
{
    if (comm->bypass != PATH_TUNED) {
        int usual = comm->library->node->channels;
        bool changed = has_channels(comm->bypass) && comm->n_channels != usual;
        *decision = (struct decision){.path = (uint8_t)comm->bypass,
                                      .channels = (uint8_t)comm->n_channels,
                                      .cap = (uint8_t)(changed ? comm->n_channels : 0)};
        return NCCL_SUCCESS;
    }
    float cost;
    int result = decide(comm, local, decision, &cost);
    if (comm->library->node->n_faults > 0)
        substitute(comm, local, decision);
    if (comm->ranks[local] == 0 && result == NCCL_SUCCESS && debug_at(LEVEL_INFO))
        log_choice(comm, decision, cost);
    return result;
}

int comm_explain(struct comm *comm, int local, const struct call *call, const char **algorithm,
                 const char **protocol, int *channels)
{
    struct decision decision;
    float cost;
    int path = bypass_path(comm, call);
    comm_prepare(comm, call);
    if (comm->bypass != PATH_TUNED) {
        comm->bypass = PATH_TUNED;
        fill_table(comm);
    }
    /* The old question knows nothing of bypasses and answers with the tuner's choice; RCCL 2.28.3
     * and later name what really runs. */
    int result = decide(comm, local, &decision, &cost);
    if (comm->library->node->n_faults > 0)
        substitute(comm, local, &decision);
    *algorithm = algorithm_titles[decision.algorithm];
    *protocol = protocol_titles[decision.protocol];
    *channels = decision.channels;
    if (path != PATH_TUNED && comm->library->version >= 22803) {
        *algorithm = path_title(comm->library, path);
        *protocol = "N/A";
        *channels = comm->n_channels;
    }
    return result;
}
