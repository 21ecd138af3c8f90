/*
 * RCCL's built-in CSV tuner in both of its forms, with their faults: it is what a rule file meets
 * on a machine without a plugin.  Source: RCCL src/plugin/tuner/csv_tuner.cc.
 */
#ifndef RCCLTUNE_SIM_CSV_TUNER_H
#define RCCLTUNE_SIM_CSV_TUNER_H

#include "node.h"

struct csv_tuner;

/* The file the library would find: NCCL_TUNER_CONFIG_FILE if it opens, else rccl_tuner_<arch>.csv
 * and rccl_tuner.csv in RCCLTUNE_SIM_LIBRARY_DIR/tuner (there is no librccl to stand beside) and in
 * $ROCM_PATH/share/rccl/tuner where ROCM_PATH is set.  NULL where there is none. */
struct csv_tuner *csv_tuner_open(const char *arch, bool strict);
void csv_tuner_close(struct csv_tuner *tuner);

/* `context` points to struct csv_context. */
struct csv_context {
    int n_ranks, n_nodes;
};
void csv_tuner_ask(const struct csv_tuner *tuner, const struct csv_context *context, int collective,
                   size_t n_bytes, int n_pipe_ops, int reg_buff,
                   float table[N_ALGORITHMS][N_PROTOCOLS], int n_algorithms, int *n_channels);

#endif
