/*
 * Kernels of a real library.  Its profiler interface tells of each launch behind it, or,
 * where the library has the host do something in between, before it and again at each replay of a
 * graph.
 */
#ifndef RCCLTUNE_HIP_LAUNCHED_H
#define RCCLTUNE_HIP_LAUNCHED_H

#include "interfaces.h"
#include "machine.h"

/* One kernel, and what was told of it so far; streams, graphs and the profiler share it. */
struct launched;

/* A kernel is put on a stream: it takes what was told and not launched yet, or waits to be told. */
struct launched *launched_kernel(void);
/* What was not told by now is told at the replays of a graph. */
void launched_captured(void);
/* It runs, in a graph or not, by what was told by now. */
void launched_run(struct launched *launched, const char *name, void *stream, bool captured);
void launched_end(struct launched *launched);

/* The profiler begins to tell of the launch at hand; what it does. */
struct launched *launched_begin(struct fabric *fabric);
void launched_tell(struct launched *launched, const struct descriptor *descriptor);

#endif
