/*
 * Where steps come from: rccltune, over a connection to rank 0, or a file that is played again.
 * Rank 0 reads a line and passes it on; every rank makes the step and writes its rows; when all
 * have, rank 0 answers rccltune with one line, but for `answer`, by which no row is written: what
 * each rank wrote, ranks parted by tabs, and the lines of a rank by the character 30.
 */
#ifndef RCCLTUNE_PERF_STEPS_H
#define RCCLTUNE_PERF_STEPS_H

#include "plan.h"

/* Opens the file on rank 0; NULL where rccltune leads. */
void steps_open(const char *plan, int rank);

/* The next step; false at the end of the file, or where rccltune ends it. */
bool steps_next(struct step *step);

/* Says that this rank has made it, and waits for the others where rccltune leads. */
void steps_done(void);

#endif
