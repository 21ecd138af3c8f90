/*
 * What a library built with NPKit leaves in NPKIT_DUMP_DIR: both clocks, entry and exit of each
 * call, in the files and the 16 bytes an event that RCCL's src/misc/npkit.cc writes.  Played where
 * RCCLTUNE_SIM_PATCHES names npkit; a file SIMULATED lies beside the events.
 */
#ifndef RCCLTUNE_SIM_NPKIT_H
#define RCCLTUNE_SIM_NPKIT_H

#include "sim.h"

/* At start; ends the program, as RCCL does, where this process has more than one device. */
void npkit_start(int n_local);

/* Calls that came one after another, from `began_s` of the simulated clock on. */
void npkit_calls(int collective, const struct decision *what, size_t n_bytes, int n_calls,
                 double began_s, double each_us);

/* When the communicator is destroyed. */
void npkit_dump(int rank, const char *node);

#endif
