/*
 * RCCL's cost model for gfx942, from the published tables: what the stand-in library believes,
 * which is not what the node file says is true.  Source: RCCL's published tables (RCCL 2.28.3
 * src/graph/tuning.cc).
 */
#ifndef RCCLTUNE_SIM_MODEL_H
#define RCCLTUNE_SIM_MODEL_H

#include "node.h"

struct model {
    int index, n_nodes;
    float latency[N_TUNABLE][N_ALGORITHMS][N_PROTOCOLS];   /* us */
    float bandwidth[N_TUNABLE][N_ALGORITHMS][N_PROTOCOLS]; /* GB/s; 0 where it cannot be chosen */
    float ring_backup[N_TUNABLE][N_PROTOCOLS];             /* before anything was switched off */
};

/* What a communicator's channels can carry, and how many it has. */
struct graphs {
    struct graph ring, tree;
    int channels;
};
struct graphs graphs_of(const struct node *node, int n_ranks, int n_nodes);

/* Whether the library knows such a node by heart, and has tuned its model for it. */
bool graph_is_matched(const struct node *node, int n_ranks, int n_nodes);

struct model_limits {
    bool ll128;       /* the topology or RCCL_LL128_FORCE_ENABLE allows it */
    bool tree_simple; /* a patched library, see docs/node-file.md */
    uint8_t algorithms[N_TUNABLE], protocols[N_TUNABLE]; /* bit masks of NCCL_ALGO and NCCL_PROTO */
};

void model_build(const struct node *node, int index, int n_ranks, int n_nodes,
                 const struct model_limits *limits, struct model *model);

/* Microseconds, -1 where the setting cannot be chosen. */
float model_time(const struct model *model, int collective, int algorithm, int protocol,
                 size_t n_bytes, int n_pipe_ops);
float model_backup_time(const struct model *model, int collective, int protocol, size_t n_bytes);

/* Largest LL and LL128 sizes that rcclUpdateCollectiveProtocol allows on several nodes (6.3). */
struct protocol_range {
    int64_t min, max;
};
struct protocol_range model_protocol_range(int model, int collective, int protocol);

#endif
