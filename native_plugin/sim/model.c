#include "rccl.h"

#include <string.h>

enum { NVLINK, PCI, NET };
/* The only algorithms that a gfx942 model has numbers for. */
enum { TREE = ALGO_TREE, RING = ALGO_RING };
enum { N_CORRECTIONS = 27 };

/* Of RCCL's tuning_model_0 and _5, tree and ring only (2.28.3 src/graph/tuning.cc). */
struct tables {
    float hw_latency[3][2][N_PROTOCOLS];
    float bw_ratio[2][2][N_PROTOCOLS]; /* up to two nodes, more */
    float before; /* what stands before the next, and is read for messages below 64 bytes */
    float correction[2][N_PROTOCOLS][N_CORRECTIONS]; /* tree, ring */
};

/* clang-format off */
#define TREE_LL                                                                                    \
    {.1f, .1f, .1f, .1f, .1f, .1f, 1.f, 1.f, 1.f, 1.f, 1.f, .6f, 1.f, .9f, 1.f, 1.f, .1f, .1f, .1f,  \
     .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f}
#define TREE_SIMPLE                                                                                \
    {.1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .7f, 1.f, 1.f, 1.f,  \
     1.f, 1.f, .7f, .7f, .5f, .6f, .6f, .6f}
#define RING_LL                                                                                    \
    {.1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, 1.f, .2f, 1.f, .4f, .4f, .1f, .2f, .2f,  \
     .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f}
#define RING_SIMPLE                                                                                \
    {.1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f,  \
     .1f, .1f, .1f, .7f, .2f, 1.f, 1.f, 1.f}

static const struct tables model_0 = {
    .hw_latency = {{{0.8f, 1.4f, 2.5f}, {0.8f, 2.2f, 3.6f}},
                   {{2.2f, 2.2f, 5.7f}, {2.2f, 2.2f, 5.7f}},
                   {{11.8f, 18.2f, 20.8f}, {9.5f, 19.8f, 15.1f}}},
    .bw_ratio = {{{.04f, .22f, .91f}, {.04f, .34f, 1.f}}, {{.04f, .22f, .95f}, {.04f, .34f, 1.f}}},
    .before = 1.f,
    .correction = {
        {{.1f, .2f, .1f, .1f, .9f, .3f, .4f, .1f, .2f, .4f, .2f, .1f, .3f, .3f, .2f, .2f, .2f, .1f,
          .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f},
         {.1f, .3f, 1.f, .1f, .5f, 1.f, .9f, 1.f, 1.f, 1.f, .3f, .1f, .4f, .5f, .5f, .4f, .4f, .3f,
          .3f, .2f, .2f, .2f, .2f, .2f, .2f, .2f, .2f},
         {.2f, 1.f, .1f, .1f, .7f, .2f, .4f, .1f, .1f, .3f, .4f, .3f, .6f, .8f, 1.f, 1.f, 1.f, 1.f,
          .9f, .8f, .8f, .8f, .8f, .8f, .9f, .9f, .9f}},
        {{.1f, .1f, .1f, .1f, .1f, .2f, .4f, .2f, .3f, .5f, .3f, .1f, .5f, .5f, .3f, .2f, .2f, .1f,
          .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f},
         {.1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .3f, 1.f, 1.f, 1.f, 1.f, 1.f, 1.f, .8f, .7f,
          .5f, .4f, .4f, .3f, .3f, .3f, .3f, .3f, .3f},
         {1.f, .8f, .2f, 1.f, 1.f, .3f, 1.f, .1f, .1f, .2f, .2f, .1f, .5f, 1.f, .8f, .8f, 1.f, .9f,
          1.f, 1.f, 1.f, 1.f, 1.f, 1.f, 1.f, 1.f, 1.f}}}};
static const struct tables model_5 = {
    .hw_latency = {{{0.9f, 0.9f, 2.3f}, {0.8f, 0.8f, 2.1f}},
                   {{2.2f, 2.2f, 5.7f}, {2.2f, 2.2f, 5.7f}},
                   {{10.5f, 10.5f, 25.f}, {9.5f, 9.5f, 320.f}}},
    .bw_ratio = {{{.06f, .06f, .11f}, {.08f, .08f, 1.f}}, {{.06f, .06f, .59f}, {.08f, .08f, 1.f}}},
    .correction = {{TREE_LL, TREE_LL, TREE_SIMPLE}, {RING_LL, RING_LL, RING_SIMPLE}}};
/* clang-format on */

static const struct tables *tables_of(int index)
{
    return index == 5 ? &model_5 : &model_0;
}

static const float base_latency[N_PROTOCOLS] = {12.f, 12.f, 17.f};

static int log2_floor(size_t value)
{
    int log = 0;
    while (value >>= 1)
        log++;
    return log;
}

static int steps_of(int collective, int n_ranks)
{
    switch (collective) {
    case COLL_ALL_REDUCE:
        return 2 * (n_ranks - 1);
    case COLL_ALL_GATHER:
    case COLL_REDUCE_SCATTER:
        return n_ranks - 1;
    default:
        return n_ranks;
    }
}

/* What the model of a communicator is made of. */
struct site {
    const struct node *node;
    const struct tables *tables;
    struct graphs graphs;
    int n_ranks, n_nodes, inside; /* the links inside a host */
};

/* A hop between hosts. */
static float net_latency(const struct site *s, const struct graph *graph, int algorithm,
                         int protocol)
{
    return s->tables->hw_latency[NET][algorithm][protocol] +
           (float)graph->latency_inter * (protocol == PROTO_SIMPLE ? 2.f : 1.f);
}

static float ring_latency(const struct site *s, int collective, int protocol)
{
    int steps = steps_of(collective, s->n_ranks), apart = s->n_nodes - 1;
    if (collective == COLL_BROADCAST || collective == COLL_REDUCE) {
        int hardware = apart > 0 ? NET : s->inside;
        if (s->graphs.ring.same_channels)
            return s->tables->hw_latency[hardware][RING][protocol];
        int algorithm = protocol == PROTO_SIMPLE ? TREE : RING;
        return (float)steps * s->tables->hw_latency[hardware][algorithm][protocol];
    }
    float hop = s->tables->hw_latency[s->inside][RING][protocol], overhead = 0;
    if (apart > 0) /* NCCL_NET_OVERHEAD's default by the CPU's maker, three times for Simple */
        overhead = (s->node->intel_cpu ? 1.f : 2.f) * (protocol == PROTO_SIMPLE ? 3.f : 1.f);
    if (hop < overhead)
        hop = overhead;
    int between = collective == COLL_ALL_REDUCE ? 2 * apart : apart;
    int algorithm = s->n_ranks == s->n_nodes ? TREE : RING;
    return (float)(steps - between) * hop +
           (float)between * net_latency(s, &s->graphs.ring, algorithm, protocol);
}

static float tree_latency(const struct site *s, int protocol)
{
    int hops = s->n_ranks / s->n_nodes - 1;
    return 2.f * ((float)hops * s->tables->hw_latency[s->inside][TREE][protocol] +
                  (float)log2_floor((size_t)s->n_nodes) *
                      net_latency(s, &s->graphs.tree, TREE, protocol));
}

static float bandwidth_of(const struct site *s, int collective, int algorithm, int protocol)
{
    const struct graph *graph = algorithm == ALGO_TREE ? &s->graphs.tree : &s->graphs.ring;
    bool few = s->n_nodes <= 2;
    float per_channel = (float)(few ? graph->bw_intra : graph->bw_inter);
    float bus = (float)graph->channels * per_channel *
                s->tables->bw_ratio[few ? 0 : 1][algorithm][protocol];
    if (algorithm == ALGO_TREE)
        return 0.5f * bus;
    if (s->n_nodes == 1 && protocol == PROTO_LL &&
        (collective == COLL_BROADCAST || collective == COLL_REDUCE))
        bus *= 1.65f;
    return bus * (float)s->n_ranks / (float)steps_of(collective, s->n_ranks);
}

static void build_cell(const struct site *s, const struct model_limits *limits, int c, int a, int p,
                       struct model *model)
{
    /* tuning.cc:660: left out where every GPU of the one node takes part; here every one-node
     * communicator counts, as those tests see no other. */
    if (a == ALGO_TREE && p == PROTO_SIMPLE && s->n_nodes == 1 && !limits->tree_simple)
        return;
    float bandwidth = bandwidth_of(s, c, a, p);
    model->latency[c][a][p] =
        base_latency[p] + (a == ALGO_TREE ? tree_latency(s, p) : ring_latency(s, c, p));
    /* tuning.cc:866-876: this gate comes after NCCL_PROTO, which cannot lift it. */
    if (p == PROTO_LL128 && !(limits->ll128 && s->node->all_xgmi))
        return;
    if (a == ALGO_RING)
        model->ring_backup[c][p] = bandwidth;
    if ((limits->algorithms[c] >> a & 1) != 0 && (limits->protocols[c] >> p & 1) != 0)
        model->bandwidth[c][a][p] = bandwidth;
}

void model_build(const struct node *node, int index, int n_ranks, int n_nodes,
                 const struct model_limits *limits, struct model *model)
{
    struct site s = {node,    tables_of(index), graphs_of(node, n_ranks, n_nodes),
                     n_ranks, n_nodes,          node->nvlink_inside ? NVLINK : PCI};
    memset(model, 0, sizeof *model);
    model->index = index;
    model->n_nodes = n_nodes;
    for (int p = 0; p < N_PROTOCOLS && n_ranks > 1; p++) {
        build_cell(&s, limits, COLL_ALL_REDUCE, ALGO_TREE, p, model);
        for (int c = 0; c < N_TUNABLE; c++)
            build_cell(&s, limits, c, ALGO_RING, p, model);
    }
}

/* By powers of two from 64 bytes; below, the library reads what lies before a row. */
static float correction(const struct tables *t, int algorithm, int protocol, size_t n_bytes)
{
    const float *row = t->correction[algorithm][protocol];
    if (n_bytes < 64)
        return row == t->correction[0][0] ? t->before : row[-1];
    int log_size = log2_floor(n_bytes >> 6);
    return row[log_size < N_CORRECTIONS ? log_size : N_CORRECTIONS - 1];
}

float model_time(const struct model *model, int collective, int algorithm, int protocol,
                 size_t n_bytes, int n_pipe_ops)
{
    float bandwidth = model->bandwidth[collective][algorithm][protocol];
    if (bandwidth == 0)
        return -1;
    const struct tables *t = tables_of(model->index);
    if (algorithm == ALGO_TREE || model->n_nodes > 1)
        bandwidth *= correction(t, algorithm, protocol, n_bytes);
    /* One collective is all that a batch of work holds in RCCL, so that trees do not pipeline what
     * a group has either (2.27.7, asked). */
    return model->latency[collective][algorithm][protocol] * (float)n_pipe_ops +
           (float)n_bytes / (1000.f * bandwidth);
}

float model_backup_time(const struct model *model, int collective, int protocol, size_t n_bytes)
{
    float bandwidth = model->ring_backup[collective][protocol];
    if (bandwidth == 0)
        return -1;
    return model->latency[collective][ALGO_RING][protocol] + (float)n_bytes / (1000.f * bandwidth);
}

/*
 * The graphs that RCCL 2.27.7 (ROCm 7.2.4) made of a node whose devices are all linked to each
 * other, as its log says them (docs/simulated-nodes.md): recorded at 2 to 64 ranks, no search
 * of ours.
 */
enum { EIGHT = 8, MOST = 64 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

bool graph_is_matched(const struct node *node, int n_ranks, int n_nodes)
{
    return node->linked.channels > 0 && (n_nodes > 1 || n_ranks == EIGHT);
}

struct graphs graphs_of(const struct node *node, int n_ranks, int n_nodes)
{
    struct graphs made = {.ring = node->ring, .tree = node->tree, .channels = node->channels};
    double link = node->linked.bw_intra;
    int per_node = n_ranks / n_nodes, ceiling = node->channel_ceiling;
    if (node->linked.channels == 0 || per_node < 2)
        return made;
    struct graph *ring = &made.ring;
    *ring = (struct graph){.bw_intra = link / 2, .channels = least(MOST, 2 * (per_node - 1))};
    if (n_nodes > 1) { /* all of a device's links, through as many channels as there may be */
        double share = link * (per_node - 1) / MOST;
        *ring = (struct graph){MOST, share, share, 0, true};
    } else if (n_ranks == EIGHT) { /* one of the topologies that RCCL has by heart */
        *ring = (struct graph){.channels = 28, .bw_intra = link / 4, .same_channels = true};
    } else if (n_ranks % EIGHT == 0) {
        ring->channels = least(MOST, 14 * n_ranks / EIGHT);
    }
    ring->same_channels |= n_ranks == 2;
    made.tree = *ring;
    if (n_ranks == 2)
        made.tree.bw_intra = link;
    made.channels = ring->channels;
    if (n_nodes == 1 && (n_ranks == 2 || n_ranks == 4)) /* init sets these for MI300X */
        made.channels = n_ranks == 2 ? 32 : 24;
    else if (2 * ring->channels <= least(MOST, ceiling))
        made.channels = 2 * ring->channels;
    made.channels = least(made.channels, ceiling);
    return made;
}
