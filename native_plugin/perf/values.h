/*
 * Values that are sent, and the results that must come of them.
 *
 * Each rank's element i is element i % PERIOD of a table of its own, PERIOD being prime, so that a
 * shift by any power of two shows.  Values are small whole numbers of which every partial result,
 * in whatever order ranks are reduced, has an exact place in the type (of a fp8 sum over 64 ranks
 * only few ranks send anything but 0, others for each element), so results are compared bit by bit.
 */
#ifndef RCCLTUNE_PERF_VALUES_H
#define RCCLTUNE_PERF_VALUES_H

#include "collective.h"

struct checked {
    int64_t compared,
        wrong; /* elements of this rank's output; -1 where there is nothing to check */
};

/* Copies a period to the device, doubles it there up to so many bytes, and waits. */
void values_spread(char *to, const void *period, size_t period_bytes, size_t bytes);

/* Fills the input of the call with this number anew, and poisons its output. */
void values_fill(const struct call *call, long number, unsigned pattern);

/* Compares what that call left: all of it up to `most_bytes`, beyond that so much in pieces spread
 * over it. */
struct checked values_compare(const struct call *call, long number, unsigned pattern,
                              size_t most_bytes);

/* Fills, makes call 0 and compares up to 4 MiB.  `pattern` is another one for each check. */
struct checked check_call(const struct call *call, unsigned pattern, bool can_compare);

/* For tests: element values and their encoding. */
double value_of(const struct step *step, int n_ranks, unsigned pattern, int rank, size_t index);
double result_of(const struct step *step, int n_ranks, unsigned pattern, size_t index);
void encode(enum type type, bool fnuz, double value, void *to);
double decode(enum type type, bool fnuz, const void *from);

#endif
