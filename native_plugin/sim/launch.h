/*
 * Who this process is among the ranks: what the launcher's environment says, and the small file in
 * memory through which the ranks of one launch meet.  No MPI: the environment is enough.
 */
#ifndef RCCLTUNE_SIM_LAUNCH_H
#define RCCLTUNE_SIM_LAUNCH_H

#include "node.h"

struct launch {
    int proc, n_procs;
    bool launched; /* by a launcher; else this process plays every one of n_procs itself */
    char key[160]; /* what the processes of one launch have in common */
};

/* Reads OMPI_COMM_WORLD_*, PMI_*, SLURM_*; RCCLTUNE_SIM_RANKS makes this process play that many
 * instead.  `default_procs` is taken where neither says anything. */
void launch_find(struct launch *launch, int default_procs);

/* Between the processes. */
struct slot {
    uint64_t digest; /* of the decisions of one block */
    double time_us;
};
void meet_start(const struct launch *launch);

/* The slot of a rank for the block under way; written before meet(), read by all after it, until
 * meet_turn() opens the next block. */
struct slot *meet_slot(int world_rank);
/* Barrier.  Waits asleep, for ever if a process is gone, as the library would; false when
 * `timeout_s`, unless it is 0, has gone by. */
bool meet(double timeout_s);
void meet_turn(void);

/* Sleep until somebody ends this process (or its longest life is over). */
_Noreturn void wait_for_ever(void);

/* Jobs that run on the node at the same time: each says so by a lock beside the node file. */

/* Collectives that other jobs run now, a bit each; 0 where no variant of the node asks. */
uint32_t running_beside(const struct node *node, const char *node_path);

/* Say that this collective runs, until the process ends, however it does. */
void tell_running(const struct node *node, const char *node_path, int collective);

#endif
