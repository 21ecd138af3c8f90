/*
 * The stand-in library: what RCCL reads at start, how a communicator is made, and how it chooses
 * for one call.  Nothing is communicated; a choice is all that comes out.
 */
#ifndef RCCLTUNE_SIM_RCCL_H
#define RCCLTUNE_SIM_RCCL_H

#include "node.h"

/*
 * RCCL's cost model for gfx942, from the published tables: what the stand-in library believes,
 * which is not what the node file says is true.  Source: RCCL's published tables (RCCL 2.28.3
 * src/graph/tuning.cc).
 */
struct model {
    int index, n_nodes;
    float latency[N_TUNABLE][N_ALGORITHMS][N_PROTOCOLS];   /* us */
    float bandwidth[N_TUNABLE][N_ALGORITHMS][N_PROTOCOLS]; /* GB/s; 0 where it cannot be chosen */
    float ring_backup[N_TUNABLE][N_PROTOCOLS];             /* before anything was switched off */
};

/* Capacity of a communicator's channels, and how many it has. */
struct graphs {
    struct graph ring, tree;
    int channels;
};
struct graphs graphs_of(const struct node *node, int n_ranks, int n_nodes);

/* Whether the library knows such a node by heart, and has tuned its model for it. */
bool graph_is_matched(const struct node *node, int n_ranks, int n_nodes);

struct model_limits {
    bool ll128;       /* the topology or RCCL_LL128_FORCE_ENABLE allows it */
    bool tree_simple; /* a patched library, see docs/measuring.md */
    uint8_t algorithms[N_TUNABLE], protocols[N_TUNABLE]; /* bit masks of NCCL_ALGO and NCCL_PROTO */
};

void model_build(const struct node *node, int index, int n_ranks, int n_nodes,
                 const struct model_limits *limits, struct model *model);

/* Microseconds, -1 where the setting cannot be chosen. */
float model_time(const struct model *model, int collective, int algorithm, int protocol,
                 size_t n_bytes, int n_pipe_ops);
float model_backup_time(const struct model *model, int collective, int protocol, size_t n_bytes);

/* One collective as a rank issues it. */
struct call {
    int collective, dtype, op, in_place;
    size_t n_bytes;     /* as a tuner sees it: of the whole group where several are aggregated */
    size_t count_bytes; /* count times element size: what the log prints */
    int n_pipe_ops;     /* of a group, by channel; comm_prepare reckons it */
    int aggregated;     /* equal calls of one rank in a group: -m */
    int registered;     /* as -R: 1 buffers, 2 windows */
    bool graph;
};

/*
 * The tuner of a process: a plugin found as the simulated release finds it, or none (the
 * built-in CSV tuner is not played).  One library per process, one context per communicator and
 * rank.
 */
struct tuner {
    int abi; /* 2 to 6; 0 where there is none */
    void *library;
    const void *table; /* the plugin's struct of that version */
    const struct rccl_family *family;
};

/* Looks at NCCL_TUNER_PLUGIN, the default name, then NCCL_NET_PLUGIN. */
void tuner_open(struct tuner *tuner, const struct rccl_family *family, int version);
void tuner_close(struct tuner *tuner);

/* An NCCL_* result.  A context is what the plugin made of it; NULL is legal. */
int tuner_init(const struct tuner *tuner, uint64_t comm_id, int n_ranks, int n_nodes,
               void **context);
int tuner_finalize(const struct tuner *tuner, void *context);

/* Let the tuner edit the table.  A version 2 plugin under a version 2 host answers with a setting
 * instead: then *algorithm and *protocol are set and the table is left alone. */
int tuner_ask(const struct tuner *tuner, void *context, const struct call *call, int n_algorithms,
              float table[N_ALGORITHMS][N_PROTOCOLS], int *n_channels, int *algorithm,
              int *protocol);

struct library { /* one a process */
    const struct node *node;
    const struct rccl_family *family;
    int version; /* 22803 */
    struct model_limits limits;
    bool algo_env, proto_env; /* NCCL_ALGO, NCCL_PROTO are set */
    int min_channels, max_channels;
    const char *override_algo, *override_proto;
    struct tuner tuner;
};

/* A communicator, as far as this process takes part in it. */
struct comm {
    struct library *library;
    int n_ranks, n_nodes, placement, n_local;
    uint64_t id;
    const int *ranks; /* of this process, n_local of them, numbered within the communicator */
    const int *world_ranks;
    struct real_comm *real; /* the real library's, NULL where it is played */
    struct asked {
        bool has_tuner; /* false where there is none, or a fault took it from this rank */
        void *context;  /* NULL is a legal one */
    } * asked;          /* of each rank */
    struct model model;
    int n_channels;
    /* What is the same for every rank and every call of a block. */
    struct call call;
    int bypass; /* PATH_TUNED: a tuner is asked */
    float table[N_ALGORITHMS][N_PROTOCOLS];
    /* How a tuner is asked before that about symmetric kernels; n_bytes 0 where it is not. */
    struct call symmetric;
    float symmetric_table[N_ALGORITHMS][N_PROTOCOLS];
};

/* Read the environment; an NCCL_* result, NCCL_INVALID_USAGE on a word that no list knows. */
int library_start(struct library *library, const struct node *node, int version);
void library_print_version(const struct library *library);

/* Make the model and the tuner contexts.  comm->ranks, n_ranks, n_nodes, placement, id are given.
 */
void comm_build(struct comm *comm, struct library *library);
int comm_init_tuner(struct comm *comm);
void comm_log_init(const struct comm *comm);
int comm_destroy(struct comm *comm);

/* Prepare a call, then let each of this process's ranks decide, once per call that is issued. */
void comm_prepare(struct comm *comm, const struct call *call);
int comm_decide(struct comm *comm, int local, struct decision *decision);

/* rcclGetAlgoInfo, the question behind -A: asks the tuner once more; names as -A prints them. */
int comm_explain(struct comm *comm, int local, const struct call *call, const char **algorithm,
                 const char **protocol, int *channels);

/* What a call's size is worth, at most `most`; and of so many those that get work. */
int wanted_channels(const struct comm *comm, const struct call *call, int algorithm, int protocol,
                    int most);
int busy_channels(const struct comm *comm, const struct call *call, int protocol, int channels);
int usual_channels(const struct comm *comm, const struct call *call, int algorithm, int protocol);

struct situation comm_situation(const struct comm *comm, const struct call *call,
                                const struct decision *decision);

/* NCCL_ALGO and NCCL_PROTO: which words they list for which collective.
 *
 * `masks[c]` gets a bit per word of `names` that is allowed for collective c.  An unset variable
 * allows everything.  `per_function` is the grammar of 2.24 and later,
 *     [list][;func:list]...    list = words with commas, a leading ^ excludes
 * where an unknown word or function is an error (NCCL_INVALID_USAGE, with a warning); the older one
 * is a plain list that ignores unknown words. */
int envlist_read(const char *text, bool per_function, const char *const *names, int n,
                 uint8_t masks[N_TUNABLE]);

#endif
