/*
 * The command line of rccl-tests and nccl-tests, in each release's letters and with their faults:
 * an unknown option prints the usage and exits 0.  Source: rccl-tests src/common.cu.
 */
#ifndef RCCLTUNE_SIM_OPTIONS_H
#define RCCLTUNE_SIM_OPTIONS_H

#include "release.h"
#include "sim.h"

struct options {
    int family; /* BENCH_* */
    int n_threads, n_gpus;
    size_t min_bytes, max_bytes, step_bytes, step_factor;
    int iters, agg_iters, warmup, cycles, check;
    int op, dtype, root; /* -1 is all */
    int average, blocking, parallel_init, graph, timeout, registered, show_setting;
    bool out_of_place, in_place;
};

/* Fills `options`, or ends the program as the benchmark would. */
void options_read(struct options *options, int family, int argc, char **argv);

#endif
