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

/* Fills the input anew, poisons the output, makes the call and compares what came: all of it up to
 * 4 MiB, beyond that so much in pieces spread over it.  `pattern` is another one for each check. */
struct checked check_call(const struct call *call, unsigned pattern, bool can_compare);

/* For tests: element values and their encoding. */
double value_of(const struct step *step, int n_ranks, unsigned pattern, int rank, size_t index);
double result_of(const struct step *step, int n_ranks, unsigned pattern, size_t index);
void encode(enum type type, bool fnuz, double value, void *to);
double decode(enum type type, bool fnuz, const void *from);

#endif
