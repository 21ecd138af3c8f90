/*
 * Steps: one a line, the same for all ranks, nothing inferred.
 *
 *     plan 2 LARGEST_BYTES
 *     communicator [PURPOSE]
 *     end
 *     answer nothing | rules | ring/ll128 | tree/simple/16
 *     check COLLECTIVE TYPE OP PLACEMENT BYTES ROOT
 *     call COLLECTIVE TYPE OP PLACEMENT BYTES ROOT
 *     measure COLLECTIVE TYPE OP PLACEMENT BYTES CLOCK LEAST_US LEAST_CALLS MOST_US
 *     order COLLECTIVE TYPE OP PLACEMENT BYTES loop | graph
 *
 * CLOCK is loop, graph, one-root: a loop whose calls all have root 0, so that they overlap; or
 * registered: a graph whose buffers the library allocated, so that it can register them.
 * Bytes are as a tuner counts them: over all ranks for all_gather, reduce_scatter and alltoall.
 */
#ifndef RCCLTUNE_PERF_PLAN_H
#define RCCLTUNE_PERF_PLAN_H

#include "perf.h"

enum step_kind {
    STEP_PLAN,
    STEP_COMMUNICATOR,
    STEP_ANSWER,
    STEP_CHECK,
    STEP_CALL,
    STEP_MEASURE,
    STEP_ORDER,
    STEP_END
};

enum { ANY_ROOT = -1, MAX_STEP = 512 }; /* bytes of a line */

struct step {
    enum step_kind kind;
    int line; /* of the file, from 1 */
    struct {
        int kind; /* enum rccltune_answer_kind */
        int algorithm, protocol, channels;
    } answer; /* of STEP_ANSWER */
    enum collective collective;
    enum type type;
    enum op op;
    bool in_place, graph, registered;
    size_t n_bytes;
    int root; /* ANY_ROOT: another one for each call */
    /* A measurement takes at least so long and so many calls, but ends when it would take more than
     * most_us (two calls at least, or the one that it asks for). */
    double least_us, most_us;
    long least_calls;
};

/* Reads a line into a step, or ends the program naming the line.  A line may be empty or a remark:
 * false.  The first other line is `plan 2 BYTES`, which says the largest step (STEP_PLAN). */
bool step_read(const char *text, int line, struct step *step);

#endif
