/*
 * How ranks talk before, between and after collectives: each has a connection to rank 0, which
 * says where it listens in a file of the run's folder.  Who does not know the token is turned away.
 */
#ifndef RCCLTUNE_PERF_MEET_H
#define RCCLTUNE_PERF_MEET_H

#include "perf.h"

/* Waits until all ranks are there.  From then on a rank that is gone ends this one too, also while
 * it waits inside the library. */
void meet_start(const char *folder, int rank, int n_ranks, const char *token);

/* What rank 0 has, everybody has afterwards. */
void meet_share(void *data, size_t size);

/* Rank 0 has everybody's, in the order of ranks; `all` is read on rank 0 alone. */
void meet_gather(const void *mine, void *all, size_t size);

/* Whether all ranks say yes; each gets the same answer. */
bool meet_agree(bool mine);

/* Waits for all, and lets them go. */
void meet_end(void);

#endif
