/*
 * The stand-in library: what RCCL reads at start, how a communicator is made, and how it chooses
 * for one call.  Nothing is communicated; a choice is all that comes out.
 */
#ifndef RCCLTUNE_SIM_RCCL_H
#define RCCLTUNE_SIM_RCCL_H

#include "model.h"
#include "node.h"
#include "release.h"
#include "times.h"
#include "tuner.h"

struct library { /* one a process */
    const struct node *node;
    const struct rccl_family *family;
    int version; /* 22803 */
    struct model_limits limits;
    bool algo_env, proto_env; /* NCCL_ALGO, NCCL_PROTO are set */
    int min_channels, max_channels;
    const char *override_algo, *override_proto;
    struct tuner tuner;
    bool tuner_opened;
};

/* One collective as a rank issues it. */
struct call {
    int collective, dtype, op, in_place;
    size_t n_bytes;     /* as a tuner sees it: of the whole group where several are aggregated */
    size_t count_bytes; /* count times element size: what the log prints */
    int n_pipe_ops;     /* of a group, by channel; comm_prepare reckons it */
    int aggregated;     /* equal calls of one rank in a group: -m */
    int registered;     /* as -R: 1 buffers, 2 windows */
    bool grouped;       /* inside ncclGroupStart/End */
    bool graph, many_per_process;
};

/* A communicator, as far as this process takes part in it. */
struct comm {
    struct library *library;
    int n_ranks, n_nodes, placement, n_local;
    uint64_t id;
    const int *ranks; /* of this process, n_local of them, numbered within the communicator */
    const int *world_ranks;
    struct real_comm *real; /* the real library's, NULL where it is played */
    void **contexts;        /* a tuner context each; NULL is a legal one */
    bool *has_tuner;        /* false where there is none, or a fault took it from this rank */
    struct model model;
    int n_channels;
    /* What is the same for every rank and every call of a block. */
    struct call call;
    int bypass; /* PATH_TUNED: a tuner is asked */
    float table[N_ALGORITHMS][N_PROTOCOLS];
};

/* Read the environment; an NCCL_* result, NCCL_INVALID_USAGE on a word that no list knows. */
int library_start(struct library *library, const struct node *node, int version);
void library_print_version(const struct library *library, const char *host);

/* Make the model and the tuner contexts.  comm->ranks, n_ranks, n_nodes, placement, id are given.
 */
int comm_build(struct comm *comm, struct library *library);
int comm_init_tuner(struct comm *comm);
void comm_log_init(const struct comm *comm, double seconds);
int comm_destroy(struct comm *comm);

/* Prepare a call, then let each of this process's ranks decide, once per call that is issued. */
void comm_prepare(struct comm *comm, const struct call *call);
int comm_decide(struct comm *comm, int local, struct decision *decision);

/* rcclGetAlgoInfo, the question behind -A: asks the tuner once more; names as -A prints them. */
int comm_explain(struct comm *comm, int local, const struct call *call, const char **algorithm,
                 const char **protocol, int *channels);

/* channels.c: what a call's size is worth, at most `most`; and of so many those that get work. */
int wanted_channels(const struct comm *comm, const struct call *call, int algorithm, int protocol,
                    int most);
int busy_channels(const struct comm *comm, const struct call *call, int protocol, int channels);

/* bypass.c: the path that takes this call before a tuner is asked, or PATH_TUNED. */
int bypass_path(const struct comm *comm, const struct call *call);

/* What -A calls a path. */
const char *path_title(const struct library *library, int path);

/* A whole number from the environment, in C's notations. */
int64_t env_number(const char *name, int64_t otherwise);

struct situation comm_situation(const struct comm *comm, const struct call *call,
                                const struct decision *decision);

#endif
