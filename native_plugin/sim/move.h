/* Moving and reducing data for real, where a program checks results. */
#ifndef RCCLTUNE_SIM_MOVE_H
#define RCCLTUNE_SIM_MOVE_H

#include "nccl.h"

/* Do what a kernel stands for when its stream is waited for: one collective, or n sends and
 * receives; of a captured one at each replay while data moves.  An NCCL_* result. */
int move_later(const struct request *requests, int n, const struct fabric_call *kernel,
               bool captured);
void move_end(struct ncclComm *comm);

/* Value of a scalar of a type, wherever it lies. */
struct factor factor_of(const struct ncclComm *comm, int dtype, const void *scalar);

#endif
