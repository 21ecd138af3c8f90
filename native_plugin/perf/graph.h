/* Calls that are captured once and replayed.  A communicator keeps its graphs: a size is timed
 * several times in turns, and to capture takes longer than what is timed (two H200). */
#ifndef RCCLTUNE_PERF_GRAPH_H
#define RCCLTUNE_PERF_GRAPH_H

#include "collective.h"
#include "rows.h"

struct graph {
    void *graph, *instance;
    uint64_t key;   /* of the call, see known.h */
    long n;         /* captured calls */
    double each_us; /* of one of them */
    struct row row; /* what the library asked about its calls; no times */
};

/* Captures n calls, of which a simulated library moves the last one's data; what failed, NULL where
 * all ranks have a graph. */
const char *graph_capture(const struct call *call, long n, struct graph *graph, struct row *row);

void graph_forget(struct graph *graph);

/* The graph of this call that the communicator has; NULL where there is none. */
struct graph *graph_kept(uint64_t key);

/* Keeps a graph for as long as its communicator's graphs are kept, and says where. */
struct graph *graph_keep(const struct graph *graph);

/* Ends all that are kept: before a communicator ends, which would wait for them for ever, and
 * before its buffers go. */
void graphs_forget(void);

#endif
