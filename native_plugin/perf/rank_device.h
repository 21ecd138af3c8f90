/* The device of a rank, and the processors beside it. */
#ifndef RCCLTUNE_PERF_RANK_DEVICE_H
#define RCCLTUNE_PERF_RANK_DEVICE_H

#include "perf.h"

struct ranks {
    int rank, n_ranks, local_rank;
};

/* From the launcher's variables (Open MPI, Hydra, Slurm, torchrun), or ends the program. */
struct ranks ranks_of_launcher(void);

/* Selects this rank's device: of the list "0,8,16" (NULL: all) the one with the local rank's
 * number, or 0 where only one is visible; binds this process to its NUMA node unless `binds` is
 * false.  Whether two ranks have the same one.  Ends the program where they may not, or where there
 * are fewer devices than ranks. */
bool take_device(const struct ranks *ranks, const char *devices, bool binds, bool may_share);

#endif
