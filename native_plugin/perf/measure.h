/*
 * Timing of collectives in two modes, both between marks on the stream (events of the device; the
 * host's time on a simulated node), behind a call that is not timed.  Loop: N calls launched one by
 * one, as jobs do that use no graphs.  Graph: the calls captured once and the graph launched back
 * to back: what the GPUs need, and what a job sees that uses graphs.  Small calls in a loop tell
 * how fast the host launches, so the two differ there, not from 4 MiB on.
 */
#ifndef RCCLTUNE_PERF_MEASURE_H
#define RCCLTUNE_PERF_MEASURE_H

#include "collective.h"
#include "rows.h"

/* Fills in calls, time, what was made and asked.  A capture that fails leaves the time empty and
 * says why in the note. */
void measure_loop(const struct call *call, struct row *row);
void measure_graph(const struct call *call, struct row *row);

/* Writes into a row what the plugin was asked since the last call of this. */
void asked_into(struct row *row);

/* Says in the rows how many questions the library asked in all, and how many of them count. */
void tell_questions(void);

#endif
