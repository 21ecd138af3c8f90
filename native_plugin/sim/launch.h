/*
 * Who this process is among the ranks: what the launcher's environment says, and the small file in
 * memory through which the ranks of one launch meet.  No MPI: the environment is enough.
 */
#ifndef RCCLTUNE_SIM_LAUNCH_H
#define RCCLTUNE_SIM_LAUNCH_H

#include "sim.h"

struct launch {
    int proc, n_procs;
    bool launched; /* by a launcher; else this process plays every one of n_procs itself */
    char key[160]; /* what the processes of one launch have in common */
};

/* Reads OMPI_COMM_WORLD_*, PMI_*, SLURM_*; RCCLTUNE_SIM_RANKS makes this process play that many
 * instead.  `default_procs` is taken where neither says anything. */
void launch_find(struct launch *launch, int default_procs);

/* Between the processes; with one process all of this does nothing. */
struct slot {
    uint64_t digest; /* of the decisions of one block */
    double time_us;
};
void meet_start(const struct launch *launch, int n_ranks);
void meet_stop(void);

/* The slot of a rank for the block under way; written before meet(), read by all after it, until
 * meet_turn() opens the next block. */
struct slot *meet_slot(int world_rank);
/* Barrier.  Waits asleep, for ever if a process is gone, as the library would; false when
 * `timeout_s`, unless it is 0, has gone by. */
bool meet(double timeout_s);
void meet_turn(void);
double meet_agree(double value); /* process 0's value on all */

/* Sleep until somebody ends this process (or its longest life is over). */
_Noreturn void wait_for_ever(void);

#endif
