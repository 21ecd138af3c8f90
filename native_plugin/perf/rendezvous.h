/*
 * Connections between ranks before, between and after collectives: each rank has one to rank 0,
 * which says where it listens in a file of the run's folder.  Who does not know the token is turned
 * away.  Each communicator's id goes this way (communicator_make in collective.c).
 */
#ifndef RCCLTUNE_PERF_RENDEZVOUS_H
#define RCCLTUNE_PERF_RENDEZVOUS_H

#include "perf.h"

/* Waits until all ranks are there.  From then on a rank that is gone ends this one too, also while
 * it waits inside the library. */
void rendezvous_start(const char *folder, int rank, int n_ranks, const char *token);

/* Copies rank 0's bytes to all ranks. */
void rendezvous_broadcast(void *data, size_t size);

/* Copies every rank's bytes to rank 0, in the order of ranks; `all` is written there alone. */
void rendezvous_gather(const void *mine, void *all, size_t size);

/* Whether all ranks say yes; each gets the same answer. */
bool rendezvous_agree(bool mine);

/* Waits for all ranks and closes their connections. */
void rendezvous_end(void);

#endif
