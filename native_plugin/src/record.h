/*
 * Counts of the calls that the host asked about: by (collective, nBytes), for RCCLTUNE_RECORD on a
 * real job.
 *
 * A call is counted in a tally (tally.h).  Every 256th call with a key looks at the clock, and now
 * and then writes what was counted so far beside the file, so that little is lost where a rank is
 * killed.
 */
#ifndef RCCLTUNE_RECORD_H
#define RCCLTUNE_RECORD_H

#include "output.h"
#include "settings.h"

struct record;

/* The first lines of a file of records. */
extern const char record_header[];

/* Starts counting for a communicator.  `*record` is NULL when nothing was asked for.  `reason` is
 * filled when the file cannot be written or memory ran out. */
enum output_start record_start(const struct settings *settings, const struct output_comm *comm,
                               struct record **record, char *reason, size_t size);

/* Counts a call; from any thread.  A collective that has no name here is counted apart. */
void record_count(struct record *record, int collective, uint64_t n_bytes);

/* Appends what was counted to the file and ends counting.  NULL is allowed.  No other thread may
 * count any more.  What is never ended is written when the process exits, and never by a
 * child of the process that began. */
void record_end(struct record *record);

#endif
