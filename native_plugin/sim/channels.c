/*
 * How many channels a call runs through: enqueue.cc's steps after the choice, as RCCL 2.27.7 takes
 * them (tests/simulate/test_conformance.py).
 */
#include "rccl.h"

#include <stdlib.h>

enum { CELL_TRAFFIC = 16384, THREADS = 256 };

/* Bytes of a thread below which a channel goes.  On several hosts two collectives have their own,
 * unless the site sets channels (rcclUpdateThreadThreshold, tuning models 5 and 8; for Simple that
 * table is read past a row's end, where reduce_scatter meets all_gather's). */
static int64_t bytes_a_thread(const struct comm *comm, int collective, int algorithm, int protocol)
{
    static const int usual[N_PROTOCOLS] = {8, 8, 64}, between_hosts[N_PROTOCOLS] = {16, 64, 16};
    bool sharing = collective == COLL_ALL_GATHER || collective == COLL_REDUCE_SCATTER;
    if (sharing && comm->n_nodes > 1 && comm->library->family->since >= ROCM_7_0 &&
        !(collective == COLL_ALL_GATHER && protocol == PROTO_SIMPLE) &&
        getenv("NCCL_MIN_NCHANNELS") == NULL && getenv("NCCL_MAX_NCHANNELS") == NULL)
        return (int64_t)between_hosts[protocol] * comm->n_ranks;
    return usual[protocol] *
           (int64_t)(algorithm == ALGO_RING && protocol == PROTO_LL ? comm->n_ranks : 1);
}

int wanted_channels(const struct comm *comm, const struct call *call, int algorithm, int protocol,
                    int most)
{
    int64_t least = THREADS * bytes_a_thread(comm, call->collective, algorithm, protocol);
    int64_t channels = (int64_t)call->n_bytes / least;
    return channels > most ? most : channels < 1 ? 1 : (int)channels;
}

static int64_t divided_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The message in cells of 16 KiB of traffic, whole ones in each channel. */
int busy_channels(const struct comm *comm, const struct call *call, int protocol, int channels)
{
    bool sharing = call->collective == COLL_ALL_GATHER || call->collective == COLL_REDUCE_SCATTER;
    int64_t per_byte = call->collective == COLL_ALL_REDUCE ? 2 : sharing ? comm->n_ranks : 1;
    int64_t bytes = (int64_t)call->n_bytes / (sharing ? comm->n_ranks : 1);
    if (protocol == PROTO_LL)
        per_byte *= 4;
    int64_t cell = divided_up(divided_up(CELL_TRAFFIC, per_byte), 16) * 16;
    int64_t cells = divided_up(bytes, cell), share = bytes * per_byte / channels;
    if (share < CELL_TRAFFIC)
        share = CELL_TRAFFIC;
    int64_t busy = divided_up(cells, divided_up(share, cell * per_byte));
    return busy < 1 ? 1 : (int)busy;
}

/* Channels that the node's default count would shrink to; fewer ran only where fewer were asked
 * for, or where the library has fewer than the node file believes. */
int usual_channels(const struct comm *comm, const struct call *call, int algorithm, int protocol)
{
    int usual = wanted_channels(comm, call, algorithm, protocol, comm->library->node->channels);
    return busy_channels(comm, call, protocol, usual);
}
