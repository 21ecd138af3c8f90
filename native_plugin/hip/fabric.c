/*
 * Communicators of the simulated machine: how long what was launched takes, behind what ran before
 * and with the node file's noise, and that all ranks launched the same.  Each rank reckons for
 * itself, because all but a rank's own noise is drawn from keys that they have in common; they meet
 * where a stream is waited for.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../sim/history.h"
#include "../sim/meeting.h"
#include "../sim/placement.h"
#include "machine.h"
#include "stream.h"

/* What making a communicator costs all ranks alike. */
static const double communicator_us = 50000;
/* A call of so few bytes is a barrier: passes over sizes do not begin with it. */
enum { BARRIER_BYTES = 8 };

struct slot {
    uint64_t digest;
    int device; /* of all hosts */
    _Alignas(16) char data[FABRIC_DATA];
};

/* The last call's time, without a rank's noise; most calls are like the one before. */
struct reckoned {
    bool is_set, captured;
    uint64_t block;
    struct situation situation;
    double us;
};

struct fabric {
    struct fabric *next;
    struct meeting meeting;
    int n_ranks, rank, n_nodes, placement;
    char launch[192];
    struct noise noise;
    struct history history;
    uint64_t block;                /* what lies between two waits */
    bool block_began;              /* a call that is no barrier was made in it */
    size_t last_bytes, pass_bytes; /* of the last block, and of the pass's first */
    bool is_pending;               /* something was launched that no wait has met for */
    const void *stream;            /* on it */
    uint64_t digest;
    bool hangs;
    const struct fault *crash;
    int graphs; /* calls that graphs keep */
    struct reckoned reckoned;
};
static struct fabric *fabrics; /* in the order in which they were made, which is every rank's */

static void draw_noise(struct fabric *f, struct node *node)
{
    static int n_made;
    const char *launch = getenv("RCCLTUNE_SIM_LAUNCH");
    snprintf(f->launch, sizeof f->launch, "%.160s/%d", launch != NULL ? launch : "", n_made++);
    f->noise =
        (struct noise){.seed = (uint64_t)env_double("RCCLTUNE_SIM_SEED", 0), .launch = f->launch};
    settle_faults(node, &f->noise);
    if (n_made == 1)
        hip_simulated_pass(1e6 * env_double("RCCLTUNE_SIM_STARTUP_S", node->startup_s));
}

/* A rank that has this one's device, or -1. */
static int find_place(struct fabric *f, const struct node *node)
{
    int devices[MAX_RANKS], twin = -1, per_host = rccltune_machine_ranks_a_host(f->n_ranks);
    struct slot *mine = meeting_slot(&f->meeting, f->rank);
    mine->device = hip_current() + f->rank / per_host * (node->ranks / node->nodes);
    meeting_wait(&f->meeting, 0);
    for (int i = 0; i < f->n_ranks; i++) {
        devices[i] = ((struct slot *)meeting_slot(&f->meeting, i))->device;
        if (devices[i] == mine->device && i != f->rank)
            twin = i;
    }
    f->placement = placement_of(node, devices, f->n_ranks);
    meeting_turn(&f->meeting);
    return twin;
}

struct fabric *rccltune_fabric_prepare(int n_ranks, int rank)
{
    struct node *node = hip_machine();
    struct fabric *f = calloc(1, sizeof *f);
    if (node == NULL)
        sim_fail("RCCLTUNE_SIM_NODE names no node file: there is no machine without one");
    if (f == NULL || n_ranks > MAX_RANKS)
        sim_fail("no room for %d ranks", n_ranks);
    f->n_ranks = n_ranks;
    f->rank = rank;
    f->n_nodes = n_ranks / rccltune_machine_ranks_a_host(n_ranks);
    rccltune_machine_manner(NOT_CAPTURED);
    draw_noise(f, node);
    hip_simulated_pass(communicator_us);
    hip_host_pass(communicator_us);
    return f;
}

int rccltune_fabric_join(struct fabric *f, const char *key)
{
    struct fabric **end = &fabrics;
    meeting_open(&f->meeting, meeting_folder(), key, (uint32_t)f->n_ranks, sizeof(struct slot),
                 (uint32_t)f->n_ranks);
    while (*end != NULL)
        end = &(*end)->next;
    *end = f;
    return find_place(f, hip_machine());
}

void rccltune_fabric_close(struct fabric *f, bool aborted)
{
    struct fabric **at = &fabrics;
    if (f->graphs > 0 && !aborted)
        wait_for_ever();
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    meeting_close(&f->meeting);
    free(f);
}

int rccltune_fabric_placement(const struct fabric *f)
{
    return f->placement;
}

int rccltune_fabric_nodes(const struct fabric *f)
{
    return f->n_nodes;
}

int rccltune_fabric_ranks(const struct fabric *f)
{
    return f->n_ranks;
}

int rccltune_fabric_rank(const struct fabric *f)
{
    return f->rank;
}

void *rccltune_fabric_data(struct fabric *f, int rank)
{
    return ((struct slot *)meeting_slot(&f->meeting, rank))->data;
}

void rccltune_fabric_meet(struct fabric *f)
{
    meeting_wait(&f->meeting, 0);
}

void rccltune_fabric_turn(struct fabric *f)
{
    meeting_turn(&f->meeting);
}

void fabric_keep(struct fabric *f, int graphs)
{
    f->graphs += graphs;
}

int rccltune_fabric_put(struct fabric *f, const struct fabric_call *call, void *stream)
{
    return hip_put(stream, &(struct hip_work){.kind = WORK_COLLECTIVE, .collective = {f, *call}});
}

static void digest(struct fabric *f, const struct fabric_call *call)
{
    const struct decision *d = &call->decision;
    bool is_pair = d->path == PATH_P2P; /* whose ends need not send and receive alike */
    uint64_t what = (uint64_t)call->collective << 48 | (uint64_t)d->path << 32 |
                    (uint64_t)d->algorithm << 24 | (uint64_t)d->protocol << 16 |
                    (uint64_t)d->channels << 8 | d->cap;
    uint64_t size = is_pair ? 0
                            : (uint64_t)call->n_bytes << 16 | (uint64_t)(call->dtype & 15) << 12 |
                                  (uint64_t)(call->root & 4095);
    f->digest = keys_with(keys_with(f->digest, what), size);
}

/* A block belongs to the size of its first call; where that falls a pass begins. */
static void begin_block(struct fabric *f, size_t n_bytes)
{
    f->block_began = true;
    if (n_bytes < f->last_bytes || f->last_bytes == 0) {
        history_new_pass(&f->history);
        f->pass_bytes = n_bytes;
    }
    f->last_bytes = n_bytes;
}

static void strike(struct fabric *f, const struct node *node, const struct situation *s)
{
    const struct fault *fault = NULL;
    while ((fault = next_fault(node, fault, FAULT_HANG, s)) != NULL)
        f->hangs = f->hangs || fault->rank < 0 || fault->rank == f->rank;
    while ((fault = next_fault(node, fault, FAULT_CRASH, s)) != NULL) {
        if (f->rank == (fault->rank < 0 ? 0 : fault->rank))
            f->crash = fault;
    }
}

static bool is_barrier(const struct situation *s)
{
    return s->collective == COLL_ALL_REDUCE && s->n_bytes <= BARRIER_BYTES;
}

static double reckon(struct fabric *f, const struct node *node, const struct situation *s,
                     bool captured)
{
    struct reckoned *last = &f->reckoned;
    if (!last->is_set || last->block != f->block || last->captured != captured ||
        memcmp(&last->situation, s, sizeof *s) != 0) {
        struct noise noise = f->noise;
        noise.quiet = captured;
        *last = (struct reckoned){.is_set = true, .captured = captured, .block = f->block};
        memcpy(&last->situation, s, sizeof *s);
        /* What keeps ranks in step takes no time where the node file lists none, as of pairs, of
         * which it has sendrecv alone. */
        bool in_step = is_barrier(s) && s->ranks > 1;
        double time = in_step ? fmax(true_time(node, s), 0) : noise_free_time(node, s);
        last->us = time * block_factor(node, &noise, s, f->block, hip_simulated_seconds());
        strike(f, node, s);
    }
    return last->us;
}

void fabric_run(struct fabric *f, const struct fabric_call *call, void *stream, bool captured)
{
    const struct node *node = hip_machine();
    struct situation s;
    memset(&s, 0, sizeof s); /* compared byte by byte */
    s.collective = call->collective;
    s.what = call->decision;
    s.ranks = f->n_ranks;
    s.placement = f->placement;
    s.in_place = call->in_place;
    s.dtype = call->dtype;
    s.n_bytes = call->n_bytes;
    rccltune_machine_manner(!captured          ? NOT_CAPTURED
                            : call->registered ? CAPTURED_REGISTERED
                                               : CAPTURED);
    bool in_step = is_barrier(&s);
    if (!f->block_began && !in_step)
        begin_block(f, call->n_bytes);
    bool at_first = !in_step && call->n_bytes == f->pass_bytes;
    history_recall(&f->history, at_first, &s);
    double us = reckon(f, node, &s, captured);
    us += history_first_use(&f->history, node, &call->decision, 1);
    if (!in_step)
        history_remember(&f->history, at_first, &call->decision);
    struct noise noise = f->noise;
    noise.quiet = captured;
    hip_simulated_pass(us);
    hip_busy(stream, us * rank_factor(node, &noise, rank_keys(&noise, &s, f->block), f->rank));
    digest(f, call);
    f->is_pending = true;
    f->stream = stream;
}

/* Every rank must have launched the same, or all wait for each other for ever. */
static void meet(struct fabric *f)
{
    struct slot *mine = meeting_slot(&f->meeting, f->rank);
    if (f->crash != NULL)
        crash_now(f->crash);
    if (f->hangs)
        wait_for_ever();
    mine->digest = f->digest;
    meeting_wait(&f->meeting, 0);
    for (int i = 0; i < f->n_ranks; i++) {
        const struct slot *slot = meeting_slot(&f->meeting, i);
        if (slot->digest != f->digest)
            wait_for_ever();
    }
    meeting_turn(&f->meeting);
    f->is_pending = false;
    f->block_began = false;
    f->digest = 0;
    f->block++;
}

void fabric_wait(void *stream, bool all)
{
    for (struct fabric *f = fabrics; f != NULL; f = f->next) {
        if (f->is_pending && (all || f->stream == stream))
            meet(f);
    }
}
