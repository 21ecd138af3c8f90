/*
 * Timing of collectives by two clocks.  Loop: the host's clock over N calls and one wait behind a
 * barrier, as rccl-tests has it: what a job sees that launches its calls one by one.  Graph: the
 * calls captured once and the graph launched back to back: what the GPUs need, and what a job sees
 * that uses graphs.  Small calls in a loop tell how fast the host launches, so the two differ
 * there, not from 4 MiB on.
 */
#ifndef RCCLTUNE_PERF_MEASURE_H
#define RCCLTUNE_PERF_MEASURE_H

#include "collective.h"
#include "rows.h"

/* Fills in calls, time, what was made and asked.  A capture that fails leaves the time empty and
 * says why in the note. */
void measure_loop(const struct call *call, struct row *row);
void measure_graph(const struct call *call, struct row *row);

/* A captured graph.  `put` puts on the communicator's stream whatever it shall hold, and writes
 * words where that fails; graph_capture says what failed, NULL where all ranks have a graph. */
struct graph {
    void *graph, *instance;
};
const char *graph_capture(struct graph *graph,
                          void (*put)(const void *what, char *words, size_t size),
                          const void *what);
void graph_forget(struct graph *graph);

/* A machine that stops for a millisecond once in a while (2 % of timings on a virtual one) spoils
 * one of three parts, so that the middle one counts. */
enum { PARTS = 3 };
double middle(double a, double b, double c);

/* Writes into a row what the plugin was asked since the last call of this. */
void asked_into(struct row *row);

#endif
