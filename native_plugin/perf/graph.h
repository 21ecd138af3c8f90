/* Calls that are captured once and replayed. */
#ifndef RCCLTUNE_PERF_GRAPH_H
#define RCCLTUNE_PERF_GRAPH_H

#include "collective.h"
#include "rows.h"

struct graph {
    void *graph, *instance;
};

/* Captures n calls, of which a simulated library moves the last one's data; what failed, NULL where
 * all ranks have a graph. */
const char *graph_capture(const struct call *call, long n, struct graph *graph, struct row *row);

void graph_forget(struct graph *graph);

#endif
