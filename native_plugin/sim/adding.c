/*
 * A ring adds each chunk along its own way round, which begins behind the chunk's owner; a tree
 * adds a host's ranks as a chain, the last of the ring first, and then the hosts.  Every channel
 * may have a ring of its own.  NCCL 2.28.9 src/device/all_reduce.h (runRing, runTreeSplit),
 * reduce_scatter.h; chunk sizes are rounder than the library's.
 */
#include "adding.h"

#include <stdlib.h>
#include <string.h>

enum { GRAIN = 16 }; /* bytes */
/* Bytes of a chunk of a rank's share, at most. */
static const size_t chunk_bytes[N_PROTOCOLS] = {16384, 122880, 524288};

static size_t divided_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Ranks of one host in the order of a channel's ring; those that the node file does not name follow
 * as they are numbered. */
static void host_ring(const struct node *node, int channel, int n, int *ring)
{
    bool has[MAX_RANKS] = {false};
    int filled = 0;
    const char *at = node->n_orders > 0 ? node->orders[channel % node->n_orders].ranks : "";
    while (*at != '\0') {
        char *end;
        long rank = strtol(at, &end, 10);
        if (rank >= 0 && rank < n && !has[rank] && end != at) {
            ring[filled++] = (int)rank;
            has[rank] = true;
        }
        at = end == at ? at + 1 : end + (*end != '\0');
    }
    for (int rank = 0; rank < n; rank++) {
        if (!has[rank])
            ring[filled++] = rank;
    }
}

/* All ranks in that order, host after host. */
static void whole_ring(const struct comm *comm, int channel, int *ring)
{
    int hosts = comm->n_nodes > 0 ? comm->n_nodes : 1, each = comm->n_ranks / hosts;
    host_ring(comm->library->node, channel, each, ring);
    for (int i = each; i < comm->n_ranks; i++)
        ring[i] = ring[i % each] + i / each * each;
}

static void add_chain(const int *ring, int n, int first, struct addition *additions)
{
    for (int i = 1; i < n; i++)
        additions[i - 1] = (struct addition){ring[(first + i) % n], ring[(first + i - 1) % n]};
}

/* The double tree's second tree has another host as its root. */
static void add_tree(const struct comm *comm, int channel, const int *ring,
                     struct addition *additions)
{
    int hosts = comm->n_nodes > 0 ? comm->n_nodes : 1, each = comm->n_ranks / hosts, n = 0;
    for (int host = 0; host < hosts; host++) {
        for (int i = each - 2; i >= 0; i--)
            additions[n++] = (struct addition){ring[host * each + i], ring[host * each + i + 1]};
    }
    for (int i = 1; i < hosts; i++) {
        int into = channel % 2 == 0 ? hosts - 1 - i : i;
        int from = channel % 2 == 0 ? into + 1 : into - 1;
        additions[n++] = (struct addition){ring[into * each], ring[from * each]};
    }
}

/* Halves that meet, rotated by the owner. */
static void add_pat(int n, int owner, struct addition *additions)
{
    int made = 0;
    for (int width = 1; width < n; width *= 2) {
        for (int i = 0; i + width < n; i += 2 * width)
            additions[made++] = (struct addition){(owner + i) % n, (owner + i + width) % n};
    }
}

size_t order_at(const struct adding *a, size_t element, struct addition *additions)
{
    int ring[MAX_RANKS], n = a->comm->n_ranks;
    bool by_owner = a->collective == COLL_REDUCE_SCATTER;
    bool is_ring = a->what.algorithm == ALGO_RING, is_tree = a->what.algorithm == ALGO_TREE;
    bool is_pat = a->what.algorithm == ALGO_PAT && by_owner;
    if (a->what.path != PATH_TUNED || n < 2 ||
        !(is_ring || is_pat || (is_tree && a->collective == COLL_ALL_REDUCE)))
        return 0;
    size_t grain = GRAIN / a->width, whole = by_owner ? a->count / (size_t)n : a->count;
    size_t owner = by_owner ? element / whole : 0, inside = element - owner * whole;
    size_t channels = a->what.channels > 0 ? a->what.channels : 1;
    size_t part = divided_up(divided_up(whole, channels), grain) * grain;
    size_t channel = inside / part, begin = channel * part;
    size_t length = part < whole - begin ? part : whole - begin;
    size_t end = owner * whole + begin + length;
    whole_ring(a->comm, (int)channel, ring);
    if (is_pat) {
        add_pat(n, (int)owner, additions);
        return end;
    }
    if (is_tree) {
        add_tree(a->comm, (int)channel, ring, additions);
        return end;
    }
    if (by_owner || a->collective == COLL_REDUCE) {
        int last = 0;
        while (ring[last] != (by_owner ? (int)owner : a->root))
            last++;
        add_chain(ring, n, (last + 1) % n, additions);
        return end;
    }
    size_t most = chunk_bytes[a->what.protocol] / a->width, at = inside - begin;
    size_t loop = at / (most * (size_t)n) * most * (size_t)n;
    size_t chunk = divided_up(divided_up(length - loop, (size_t)n), grain) * grain;
    chunk = chunk < most ? chunk : most;
    size_t k = (at - loop) / chunk, stop = loop + (k + 1) * chunk;
    add_chain(ring, n, (int)((k + 1) % (size_t)n), additions);
    return begin + (stop < length ? stop : length);
}
