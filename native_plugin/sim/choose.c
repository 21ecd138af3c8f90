/*
 * How the stand-in library chooses for one call: the cost table, the tuner's edit, the pick, and
 * the steps after it in the library's order (RCCL 2.28.3
 * src/enqueue.cc topoGetAlgoInfo and src/rccl_wrap.cc).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug.h"
#include "rccl.h"

static bool is_gfx950(const struct comm *comm)
{
    return strncmp(comm->library->node->arch, "gfx950", 6) == 0;
}

/*
 * Paths that a library takes before a tuner is asked, so that no rule reaches them: the node file
 * says which, but for direct all_gather, which is that of RCCL 2.26.6 to 2.30 (src/collectives.cc).
 */
static int64_t direct_largest(const struct comm *comm)
{
    if (!is_gfx950(comm))
        return 4194304;
    return comm->n_nodes == 1 ? 8388608 : comm->n_nodes < 64 ? comm->n_nodes * 2097152 : 75497472;
}

static bool direct_takes(const struct comm *comm, const struct call *call)
{
    if (call->collective != COLL_ALL_GATHER)
        return false;
    int since = comm->library->family->since;
    const char *disabled = getenv("RCCL_DIRECT_ALLGATHER_DISABLE");
    int64_t largest = env_number("RCCL_DIRECT_ALLGATHER_THRESHOLD", direct_largest(comm));
    /* Each call of a group for itself. */
    size_t mine = call->n_bytes / (size_t)(call->aggregated > 1 ? call->aggregated : 1);
    if (largest < 0 || mine > (uint64_t)largest)
        return false;
    /* Its mere presence counted in 2.28, its value does later. */
    if (disabled != NULL && (comm->library->version < 23000 || strcmp(disabled, "0") != 0))
        return false;
    if (since >= ROCM_7_1)
        return comm->n_ranks % 8 == 0;
    return since >= ROCM_7_0 && comm->n_nodes >= 2 && comm->n_nodes <= 16;
}

/* The path that takes this call before a tuner is asked, or PATH_TUNED. */
static int bypass_path(const struct comm *comm, const struct call *call)
{
    const struct node *node = comm->library->node;
    struct decision nothing = {0};
    struct situation s = comm_situation(comm, call, &nothing);
    size_t elements = call->n_bytes / (size_t)dtype_bytes[call->dtype];
    for (int i = 0; i < node->n_bypasses && comm->n_ranks > 1; i++) {
        struct selector where = node->bypasses[i].where;
        const char *limit = node->bypasses[i].limit;
        if (*limit != '\0')
            where.max_bytes = env_number(limit, where.max_bytes);
        bool in_chunks = elements % (size_t)node->bypasses[i].chunks == 0;
        if (where.max_bytes >= 0 && in_chunks && selector_fits(node, &where, &s))
            return node->bypasses[i].path;
    }
    if (node->library_bypasses && comm->n_ranks > 1 && direct_takes(comm, call))
        return PATH_DIRECT;
    return call->collective >= N_TUNABLE ? PATH_P2P : PATH_TUNED;
}

static const float longest_us = 3.6e9f;

/* Rows of the cost table. */
static int n_algorithms_of(const struct library *library)
{
    return library->family->since >= ROCM_7_0 ? N_ALGORITHMS : N_ALGORITHMS - 1;
}

static void fill_table(struct comm *comm, const struct call *call,
                       float table[N_ALGORITHMS][N_PROTOCOLS])
{
    const struct library *library = comm->library;
    for (int a = 0; a < N_ALGORITHMS; a++) {
        for (int p = 0; p < N_PROTOCOLS; p++)
            table[a][p] = comm->n_ranks == 1 ? -1.f
                                             : model_time(&comm->model, call->collective, a, p,
                                                          call->n_bytes, call->n_pipe_ops);
    }
    if (comm->n_ranks == 1) {
        table[ALGO_RING][PROTO_SIMPLE] = 0;
        return;
    }
    /* R28 enqueue.cc:2137: every ring cell, the ineligible ones too, which become -1024. */
    bool fp8 = call->dtype == DTYPE_FP8_E4M3 || call->dtype == DTYPE_FP8_E5M2;
    if (fp8 && comm->n_ranks > 8 && library->family->since >= ROCM_7_11) {
        for (int p = 0; p < N_PROTOCOLS; p++)
            table[ALGO_RING][p] *= 1024.f;
    }
}

/* On one node (NCCL 2.31.2 src/sym_kernels.cc:268 and, by default, :342). */
static bool has_symmetric_kernel(const struct comm *comm, const struct call *call)
{
    bool is_float = call->dtype == DTYPE_HALF || call->dtype == DTYPE_FLOAT ||
                    call->dtype == DTYPE_BFLOAT16 || call->dtype == DTYPE_FP8_E4M3 ||
                    call->dtype == DTYPE_FP8_E5M2;
    bool sums = call->op == OP_SUM || call->op == OP_AVG;
    bool reduces = call->collective == COLL_ALL_REDUCE || call->collective == COLL_REDUCE_SCATTER;
    bool has_one = call->collective == COLL_ALL_GATHER || (reduces && sums && is_float);
    return has_one && comm->n_nodes == 1 && comm->n_ranks > 1 &&
           comm->library->version >= NCCL_2_31;
}

/* The arguments of src/scheduler/symmetric_sched.cc:173-200 (NCCL 2.31.2; 2.32.3: to :206): bytes
 * of one rank, each call's in whole cells of a kernel, and numPipeOps 0. */
static void prepare_symmetric(struct comm *comm)
{
    enum { CELL = 1024 };
    const struct call *call = &comm->call;
    size_t n_calls = (size_t)(call->aggregated > 1 ? call->aggregated : 1);
    comm->symmetric = *call;
    comm->symmetric.n_bytes = 0;
    if (!has_symmetric_kernel(comm, call))
        return;
    comm->symmetric.n_bytes = n_calls * ((call->count_bytes + CELL - 1) / CELL * CELL);
    comm->symmetric.n_pipe_ops = 0;
    fill_table(comm, &comm->symmetric, comm->symmetric_table);
}

void comm_prepare(struct comm *comm, const struct call *call)
{
    comm->call = *call;
    comm->call.n_pipe_ops = (call->aggregated + comm->n_channels - 1) / comm->n_channels;
    comm->bypass = bypass_path(comm, call);
    if (comm->bypass == PATH_TUNED) {
        fill_table(comm, &comm->call, comm->table);
        prepare_symmetric(comm);
    }
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

/* Whether this build sets protocols after a tuner's exact zero, too: 2.26.6 does; of 2.27.7 those
 * of before 2025-11-03 do, which a node file says (rccltune/overwritten.py). */
static bool writes_over(const struct library *library)
{
    int since = library->family->since, said = library->node->overwrites;
    return since < ROCM_7_1 || (said == 1 && since < ROCM_7_11);
}

/* Up to how many bytes a rank LL is set on one node; -1 where it is not (rccl_wrap.cc:46 to 52 of
 * torchcomms 76271ffa for 2.27.7, :127 to :133 of 59426ba4 for 2.28.3). */
static int64_t ll_share(const struct comm *comm)
{
    bool scatters = comm->call.collective == COLL_REDUCE_SCATTER;
    if (comm->library->family->since < ROCM_7_1)
        return -1;
    if (!is_gfx950(comm))
        return scatters ? 352128 : -1;
    if (comm->call.collective == COLL_ALL_GATHER)
        return 88448;
    bool newer = comm->library->family->since >= ROCM_7_11;
    return !scatters ? -1 : newer ? 1048576 : 175488;
}

/* rcclUpdateCollectiveProtocol: off under NCCL_PROTO, and under a tuner's exact zero where the
 * build knows that. */
static int update_protocol(const struct comm *comm, bool matched, int protocol)
{
    /* Above which bytes and up to which LL and LL128 are allowed on several nodes. */
    static const struct {
        int64_t min, max;
    } ranges[N_TUNABLE][2] = {
        [COLL_BROADCAST] = {{0, 8192}, {8192, 33554432}},
        [COLL_REDUCE] = {{0, 4096}, {4096, 16777216}},
        [COLL_ALL_GATHER] = {{0, 98304}, {98304, 5046272}},
        [COLL_REDUCE_SCATTER] = {{0, 655360}, {131072, 3211264}},
        [COLL_ALL_REDUCE] = {{0, 524288}, {524288, 4415057}},
    };
    const struct library *library = comm->library;
    const struct call *call = &comm->call;
    if (library->proto_env || (matched && !writes_over(library)))
        return protocol;
    bool all_reduce = call->collective == COLL_ALL_REDUCE;
    int64_t size = (int64_t)(all_reduce ? call->n_bytes : call->n_bytes / (size_t)comm->n_ranks);
    if (comm->n_nodes == 1)
        return size <= ll_share(comm) ? PROTO_LL : protocol;
    /* At first three collectives (torchcomms 9e93d281, rccl_wrap.cc:36). */
    bool rooted = call->collective == COLL_BROADCAST || call->collective == COLL_REDUCE;
    if (library->family->since < (rooted ? ROCM_7_1 : ROCM_7_0) || comm->model.index == 0)
        return protocol;
    double more = all_reduce && comm->n_nodes > 2 ? 3.8 : 1;
    for (int p = PROTO_LL128; p >= PROTO_LL; p--) { /* LL128 also where the two overlap */
        int64_t max = ranges[call->collective][p].max;
        if (p == PROTO_LL128)
            max = library->limits.ll128 ? (int64_t)((double)max * more) : 0;
        if (size > ranges[call->collective][p].min && size <= max)
            return p;
    }
    return PROTO_SIMPLE;
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

/* One of RCCL_OVERRIDE_ALGO and _PROTO, whose words lead to cells of the table that are a step from
 * each other; an ineligible one leaves what was chosen. */
static int override(const char *variable, const char *wanted, const char *const *names, int n,
                    const float *cells, int step, int *value)
{
    if (wanted == NULL)
        return NCCL_SUCCESS;
    int found = find_name(text_of(wanted), names, n, true);
    if (found < 0) {
        debug_warn("Invalid algo or protocol string passed in %s: %s", variable, wanted);
        return NCCL_INVALID_USAGE;
    }
    if (cells[found * step] == -1.f)
        debug_warn("%s=%s is not available for this collective; not applied", variable, wanted);
    else
        *value = found;
    return NCCL_SUCCESS;
}

/* All_reduce of gfx950 on one node, where there is no tuner at all: loading one takes it away
 * (torchcomms 97cad7d4 enqueue.cc:2292, 59426ba4 enqueue.cc:2366). */
static bool takes_tree(const struct comm *comm, bool tuned)
{
    size_t n_bytes = comm->call.n_bytes;
    return !tuned && !comm->library->algo_env && comm->library->family->since >= ROCM_7_1 &&
           is_gfx950(comm) && comm->n_nodes == 1 && comm->call.collective == COLL_ALL_REDUCE &&
           n_bytes >= 64 && n_bytes <= 262144;
}

static int finish(const struct comm *comm, float table[N_ALGORITHMS][N_PROTOCOLS], int algorithm,
                  int protocol, bool matched, int n_channels, struct decision *decision)
{
    protocol = update_protocol(comm, matched, protocol);
    int channels = shrink_channels(comm, algorithm, protocol);
    const struct library *l = comm->library;
    int result = override("RCCL_OVERRIDE_ALGO", l->override_algo, algorithm_titles,
                          n_algorithms_of(l), &table[0][protocol], N_PROTOCOLS, &algorithm);
    if (result == NCCL_SUCCESS)
        result = override("RCCL_OVERRIDE_PROTO", l->override_proto, protocol_titles, N_PROTOCOLS,
                          table[algorithm], 1, &protocol);
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
    const struct fault *f = NULL;
    struct situation s = comm_situation(comm, &comm->call, decision);
    while ((f = next_fault(comm->library->node, f, FAULT_SUBSTITUTE, &s)) != NULL) {
        if (f->rank >= 0 && f->rank != comm->world_ranks[local])
            continue;
        decision->path = (uint8_t)f->path;
        if (f->path == PATH_TUNED) {
            decision->algorithm = (uint8_t)f->algorithm;
            decision->protocol = (uint8_t)f->protocol;
        }
        s.what = *decision;
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

static int decide(struct comm *comm, int local, struct decision *decision, float *cost)
{
    const struct library *library = comm->library;
    float table[N_ALGORITHMS][N_PROTOCOLS];
    int algorithm = -1, protocol = -1, n_channels = 0, result = NCCL_SUCCESS;
    *cost = 0;
    memcpy(table, comm->table, sizeof table);
    bool tuned = comm->asked[local].has_tuner && comm->n_ranks > 1;
    if (tuned) {
        result = tuner_ask(&library->tuner, comm->asked[local].context, &comm->call,
                           n_algorithms_of(library), table, &n_channels, &algorithm, &protocol);
        if (result != NCCL_SUCCESS)
            return result; /* NCCLCHECK(getCollInfo): the collective fails */
    }
    bool answered =
        algorithm >= 0 && protocol >= 0 && algorithm < N_ALGORITHMS && protocol < N_PROTOCOLS;
    if (!answered)
        *cost = pick(comm, table, &algorithm, &protocol);
    bool matched = tuned && *cost == 0.f && !answered;
    result = finish(comm, table, algorithm, protocol, matched, n_channels, decision);
    if (takes_tree(comm, tuned)) {
        decision->algorithm = ALGO_TREE;
        decision->protocol = PROTO_LL;
    }
    substitute(comm, local, decision);
    return result;
}

/* Two questions before the one that decides: which symmetric kernel runs, without a cell; and, as
 * none may run on buffers that are in no window, which kernel would (NCCL 2.31.2
 * src/tuning/tuning.cc:213, from :289).  Neither answer counts. */
static int ask_for_symmetric(struct comm *comm, int local)
{
    float table[N_ALGORITHMS][N_PROTOCOLS];
    const struct asked *asked = &comm->asked[local];
    int result = NCCL_SUCCESS;
    if (!asked->has_tuner || comm->symmetric.n_bytes == 0)
        return NCCL_SUCCESS;
    for (int a = 0; a < N_ALGORITHMS; a++) {
        for (int p = 0; p < N_PROTOCOLS; p++)
            table[a][p] = -1.f;
    }
    for (int i = 0; i < 2 && result == NCCL_SUCCESS; i++) {
        int algorithm = -1, protocol = -1, n_channels = 0;
        result =
            tuner_ask(&comm->library->tuner, asked->context, &comm->symmetric,
                      n_algorithms_of(comm->library), table, &n_channels, &algorithm, &protocol);
        memcpy(table, comm->symmetric_table, sizeof table);
    }
    return result;
}

int comm_decide(struct comm *comm, int local, struct decision *decision)
{
    if (comm->bypass != PATH_TUNED) {
        int path = comm->bypass, usual = comm->library->node->channels;
        /* What sends and receives uses the communicator's; the others start kernels of their own.
         */
        bool own = path != PATH_P2P && path != PATH_DIRECT && path < N_LIBRARY_PATHS;
        bool changed = !own && comm->n_channels != usual;
        *decision = (struct decision){.path = (uint8_t)path,
                                      .channels = (uint8_t)comm->n_channels,
                                      .cap = (uint8_t)(changed ? comm->n_channels : 0)};
        return NCCL_SUCCESS;
    }
    float cost;
    int result = ask_for_symmetric(comm, local);
    if (result == NCCL_SUCCESS)
        result = decide(comm, local, decision, &cost);
    if (comm->ranks[local] == 0 && result == NCCL_SUCCESS && debug_at(LEVEL_INFO))
        log_choice(comm, decision, cost);
    return result;
}

int comm_explain(struct comm *comm, int local, const struct call *call, const char **algorithm,
                 const char **protocol, int *channels)
{
    struct decision decision;
    float cost;
    comm_prepare(comm, call);
    fill_table(comm, &comm->call, comm->table); /* also where nobody is asked */
    /* The old question knows nothing of bypasses and answers with the tuner's choice; RCCL 2.28.3
     * and later name what really runs. */
    int result = decide(comm, local, &decision, &cost);
    *algorithm = algorithm_titles[decision.algorithm];
    *protocol = protocol_titles[decision.protocol];
    *channels = decision.channels;
    if (comm->bypass != PATH_TUNED && comm->library->version >= ROCM_7_11) {
        *algorithm = comm->bypass == PATH_DIRECT ? "Direct"
                     : comm->bypass == PATH_DDA  ? "DDA-IPC"
                                                 : comm->library->node->paths[comm->bypass].name;
        *protocol = "N/A";
        *channels = comm->n_channels;
    }
    return result;
}
