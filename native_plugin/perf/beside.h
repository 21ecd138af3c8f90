/*
 * Collectives beside matrix products: each alone, then both at once on two streams.
 *
 * How many of each there are stands in the plan, so that all ranks make the same calls; the clock
 * is the device's own (events in the streams), so that what the host does in between is in no
 * time.
 */
#ifndef RCCLTUNE_PERF_BESIDE_H
#define RCCLTUNE_PERF_BESIDE_H

#include "collective.h"
#include "rows.h"

/* Fills in the row's times.  A capture that fails leaves them empty and says why in the note. */
void measure_beside(const struct call *call, struct row *row);

#endif
