/*
 * The graphs that RCCL 2.27.7 (ROCm 7.2.4) made of a node whose devices are all linked to each
 * other, as its log says them (docs/real-library.md): recorded at 2 to 64 ranks, no search of ours.
 */
#include "model.h"

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
