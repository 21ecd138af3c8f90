/*
 * A stand-in host: loads the plugin as RCCL does (dlopen, one symbol of one version) and asks it.
 */
#ifndef RCCLTUNE_HOST_H
#define RCCLTUNE_HOST_H

#include "tuner_abi.h"

#include <stdbool.h>

struct host {
    int version;
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

/* Calls destroy or finalize. */
int host_finalize(struct host *host);

#endif
