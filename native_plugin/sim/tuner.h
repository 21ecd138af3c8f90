/*
 * The tuner of a process: a plugin found as the simulated release finds it, or none (the
 * built-in CSV tuner is not played).  One library per process, one context per communicator and
 * rank.
 */
#ifndef RCCLTUNE_SIM_TUNER_H
#define RCCLTUNE_SIM_TUNER_H

#include <stddef.h>
#include <stdint.h>

#include "release.h"
#include "sim.h"

struct tuner {
    int abi; /* 2 to 6; 0 where there is none */
    const char *name;
    void *library;
    const void *table; /* the plugin's struct of that version */
    const struct rccl_family *family;
};

/* What a plugin is asked about one call. */
struct tuner_call {
    int collective;
    size_t n_bytes;
    int n_pipe_ops, reg_buff, n_algorithms;
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
int tuner_ask(const struct tuner *tuner, void *context, const struct tuner_call *call,
              float table[N_ALGORITHMS][N_PROTOCOLS], int *n_channels, int *algorithm,
              int *protocol);

#endif
