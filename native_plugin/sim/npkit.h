/*
 * What a library built with NPKit leaves in NPKIT_DUMP_DIR (RCCL src/misc/npkit.cc): its files,
 * with the events of one call.  Where RCCLTUNE_SIM_PATCHES names npkit; a file SIMULATED lies
 * beside them.
 */
#ifndef RCCLTUNE_SIM_NPKIT_H
#define RCCLTUNE_SIM_NPKIT_H

/* When the communicator is destroyed. */
void npkit_dump(int rank, int collective, const char *node);

#endif
