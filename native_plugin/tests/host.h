/*
 * A stand-in host: loads the plugin as RCCL does (dlopen, one symbol of one version) and asks it.
 */
#ifndef RCCLTUNE_HOST_H
#define RCCLTUNE_HOST_H

#include "tuner_abi.h"

#include <stdbool.h>

struct host {
    int version;
    size_t n_ranks; /* of the communicator */
    void *library;
    const void *symbol;
    abi_logger logger; /* handed to init; NULL unless set between load and init */
    void *context;
};

/* One question and its answer.  For version 2 the table is made of the answer: 0 in the cell named.
 */
struct host_call {
    int collective;
    size_t n_bytes;
    int n_pipe_ops;
    int reg_buff;
    float *table;
    int n_algorithms;
    int n_protocols;
    int n_channels;
};

/* Loads `path` and looks up the symbol of `version`, alone. */
bool host_load(struct host *host, const char *path, int version);

/* Calls init for a communicator; the host's result code. */
int host_init(struct host *host, size_t n_ranks, size_t n_nodes);

/* Calls getCollInfo; the host's result code. */
int host_ask(struct host *host, struct host_call *call);

/* Releases of NCCL, by how they ask about one call. */
enum host_release {
    HOST_2_30,  /* once (2.30.7 src/enqueue.cc:2147) */
    HOST_2_31,  /* three times (2.31.2 src/tuning/tuning.cc:213) */
    HOST_2_32,  /* the same (2.32.3, whose lines are others) */
    HOST_LATER, /* the same, by the call's own numPipeOps (development behind 2.32.3) */
    N_HOST_RELEASES,
};

/* Asks about a call as a release does.  `call` has the last question and its answer, which decide
 * what runs. */
int host_issue(struct host *host, enum host_release release, struct host_call *call);

/* Asks about a call whose buffers are in symmetric windows, for which a symmetric kernel runs. */
int host_issue_in_windows(struct host *host, enum host_release release,
                          const struct host_call *call);

/* Calls destroy or finalize. */
int host_finalize(struct host *host);

#endif
