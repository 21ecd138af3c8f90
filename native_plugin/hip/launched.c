#include "launched.h"

#include <stdlib.h>
#include <string.h>

#include "../sim/rccl.h"

struct launched {
    int references;
    struct fabric *fabric; /* NULL until something is told */
    bool is_collective;
    struct fabric_call call; /* of a collective */
    int channels;
    int n_sends, n_receives; /* of a kernel of pairs */
    size_t sent, received;
    const char *send, *receive; /* the first; */
    bool sends_one, in_place;   /* the same to everybody; from where it receives */
};

/* A kernel that nobody told of yet, and what was told of one that is to come; the thread that
 * launches is the one that is told. */
static _Thread_local struct launched *untold, *unlaunched;

static struct launched *make(void)
{
    struct launched *launched = calloc(1, sizeof *launched);
    if (launched == NULL)
        sim_fail("no memory for a kernel");
    launched->references = 1;
    return launched;
}

void launched_end(struct launched *launched)
{
    if (launched == NULL || --launched->references > 0)
        return;
    if (untold == launched)
        untold = NULL;
    free(launched);
}

struct launched *launched_kernel(void)
{
    struct launched *launched = unlaunched;
    if (launched != NULL) {
        unlaunched = NULL;
        return launched;
    }
    untold = make();
    return untold;
}

void launched_captured(void)
{
    untold = NULL;
}

struct launched *launched_begin(struct fabric *fabric)
{
    struct launched *launched = untold;
    untold = NULL;
    if (launched == NULL) {
        launched_end(unlaunched);
        launched = unlaunched = make();
    }
    launched->fabric = fabric;
    return launched;
}

static int dtype_of(const char *name)
{
    static const char *const names[N_DTYPES] = {
        "ncclInt8",    "ncclUint8",    "ncclInt32",      "ncclUint32",
        "ncclInt64",   "ncclUint64",   "ncclFloat16",    "ncclFloat32",
        "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2",
    };
    int found = find_name(text_of(name), names, N_DTYPES, true);
    return found >= 0 ? found : DTYPE_FLOAT;
}

static void tell_collective(struct launched *launched, const struct descriptor *descriptor)
{
    int coll =
        find_name(text_of(descriptor->of.collective.function), collective_titles, N_TUNABLE, true);
    int algorithm = find_name(text_of(descriptor->of.collective.algorithm), algorithm_titles,
                              N_ALGORITHMS, true);
    int protocol =
        find_name(text_of(descriptor->of.collective.protocol), protocol_titles, N_PROTOCOLS, true);
    if (coll < 0 || algorithm < 0 || protocol < 0)
        sim_fail("the real library ran %s with %s and %s, which no node file knows",
                 descriptor->of.collective.function, descriptor->of.collective.algorithm,
                 descriptor->of.collective.protocol);
    int dtype = dtype_of(descriptor->of.collective.dtype);
    size_t bytes = descriptor->of.collective.count * (size_t)dtype_bytes[dtype];
    size_t own = (size_t)rccltune_fabric_rank(launched->fabric) * bytes;
    const char *send = descriptor->of.collective.send, *receive = descriptor->of.collective.receive;
    bool gathers = coll == COLL_ALL_GATHER, shares = gathers || coll == COLL_REDUCE_SCATTER;
    /* What only copies is told in bytes, whatever its type. */
    bool copies = gathers || coll == COLL_BROADCAST;
    struct fabric_call *call = &launched->call;
    size_t before = launched->is_collective ? call->n_bytes : 0; /* several in one kernel */
    *call = (struct fabric_call){
        .collective = coll,
        .dtype = copies ? DTYPE_FLOAT : dtype,
        .root = descriptor->of.collective.root,
        .in_place = gathers                       ? send == receive + own
                    : coll == COLL_REDUCE_SCATTER ? receive == send + own
                                                  : send == receive,
        .n_bytes = before + bytes * (size_t)(shares ? rccltune_fabric_ranks(launched->fabric) : 1),
        .decision = {.path = PATH_TUNED,
                     .algorithm = (uint8_t)algorithm,
                     .protocol = (uint8_t)protocol,
                     .channels = descriptor->of.collective.channels}};
    launched->is_collective = true;
}

static void tell_pair(struct launched *launched, const struct descriptor *descriptor)
{
    const char *buffer = descriptor->of.point_to_point.buffer;
    size_t bytes = descriptor->of.point_to_point.count *
                   (size_t)dtype_bytes[dtype_of(descriptor->of.point_to_point.dtype)];
    if (strcmp(descriptor->of.point_to_point.function, "Send") == 0) {
        launched->sends_one =
            launched->n_sends == 0 || (launched->sends_one && buffer == launched->send);
        launched->send = buffer;
        launched->n_sends++;
        launched->sent += bytes;
    } else {
        launched->receive =
            launched->n_receives == 0 || buffer < launched->receive ? buffer : launched->receive;
        launched->n_receives++;
        launched->received += bytes;
    }
}

void launched_tell(struct launched *launched, const struct descriptor *descriptor)
{
    if (descriptor->type == EVENT_COLLECTIVE)
        tell_collective(launched, descriptor);
    if (descriptor->type == EVENT_POINT_TO_POINT)
        tell_pair(launched, descriptor);
}

/* Channels as the node file's curves know them. */
static uint8_t cap_of(const struct launched *launched)
{
    static struct library library;
    const struct fabric_call *call = &launched->call;
    struct comm comm = {.library = &library,
                        .n_ranks = rccltune_fabric_ranks(launched->fabric),
                        .n_nodes = rccltune_fabric_nodes(launched->fabric)};
    struct call asked = {.collective = call->collective, .n_bytes = call->n_bytes};
    const char *release = env_text("RCCLTUNE_SIM_RELEASE");
    library.node = rccltune_machine_node();
    library.family = rccl_family(version_code(release != NULL ? release : library.node->rccl));
    int usual = usual_channels(&comm, &asked, call->decision.algorithm, call->decision.protocol);
    return call->decision.channels < usual ? call->decision.channels : 0;
}

/* A kernel of sends and receives: to everybody the same is an all_gather that asks no tuner. */
static struct fabric_call call_of_pairs(const struct launched *launched)
{
    size_t n = (size_t)rccltune_fabric_ranks(launched->fabric);
    bool all = n > 2 && launched->n_sends == (int)n && launched->n_receives == (int)n;
    size_t bytes = launched->sent > launched->received ? launched->sent : launched->received;
    bool gathers = all && launched->sends_one;
    const char *end = launched->receive + bytes;
    return (struct fabric_call){.collective = gathers ? COLL_ALL_GATHER
                                              : all   ? COLL_ALLTOALL
                                                      : COLL_SENDRECV,
                                .dtype = DTYPE_FLOAT,
                                .in_place =
                                    launched->send >= launched->receive && launched->send < end,
                                .n_bytes = bytes,
                                .decision = {.path = gathers ? PATH_DIRECT : PATH_P2P}};
}

void launched_run(struct launched *launched, const char *name, void *stream, bool captured)
{
    struct launched *told = launched;
    if (launched->fabric == NULL && unlaunched != NULL) { /* told at this replay */
        told = unlaunched;
        unlaunched = NULL;
    }
    if (told->fabric == NULL)
        sim_fail("the real library did not say what it ran (kernel '%s')", name);
    struct fabric_call call = told->call;
    if (told->is_collective)
        call.decision.cap = cap_of(told);
    else
        call = call_of_pairs(told);
    fabric_run(told->fabric, &call, stream, captured);
    if (told != launched)
        launched_end(told);
}
