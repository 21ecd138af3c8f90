/*
 * Who this process is among the ranks: what the launcher's environment says, and the small file in
 * memory through which the ranks of one launch meet.  No MPI: the environment is enough.
 */
#ifndef RCCLTUNE_SIM_LAUNCH_H
#define RCCLTUNE_SIM_LAUNCH_H

#include "meeting.h"
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
void launch_join(const struct launch *launch);

/* Do as meeting_slot(), meeting_wait() and meeting_turn(), for all processes of the launch. */
struct slot *launch_slot(int world_rank);
bool meet(double timeout_s);
void launch_barrier(void);

#endif
