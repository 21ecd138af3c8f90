/*
 * A schedule: settings tried in turn inside one communicator (RCCLTUNE_SCHEDULE).
 *
 *     #@ format 1
 *     #@ nodes=1 ranks=64 calls=0
 *     silent
 *     tree/ll128
 *     ring/simple/16
 *     rules
 *     forced tree/simple
 *
 * A *step* is one setting over one pass of the sizes; in a `rules` step the rule file that is set
 * answers, as it would without a schedule.  A step ends when a call's size is below the previous
 * call's, or after `calls` calls where that is given; the next call then belongs to the next step.
 * After the last one the plugin stays silent.  Where a step ends depends on the sequence of calls
 * alone, which is the same on every rank.
 */
#ifndef RCCLTUNE_SCHEDULE_H
#define RCCLTUNE_SCHEDULE_H

#include "rule_table.h"

/* What answers during a step. */
struct schedule_step {
    struct candidate answer; /* meaningless where `rules` */
    bool rules;              /* the rule file */
    bool forced; /* also into a cell that the host closed: allreduce's tree/simple alone */
};

enum { SCHEDULE_MAX_STEPS = 1 << 16, SCHEDULE_MESSAGE_SIZE = 160 };

struct schedule {
    uint64_t n_nodes;
    uint64_t n_ranks;
    uint64_t n_calls; /* of a step; 0: only a falling size ends it */
    bool has_rules;   /* in some step */
    struct schedule_step *steps;
    uint32_t n_steps;
    uint32_t steps_room;
};

enum schedule_status { SCHEDULE_OK, SCHEDULE_REFUSED, SCHEDULE_NO_MEMORY };

/* What is wrong with a file that was refused: its first mistake. */
struct schedule_mistake {
    uint32_t line; /* 0 for the file as a whole */
    char message[SCHEDULE_MESSAGE_SIZE];
};

/* Parses a file.  `schedule` is initialised here and released by schedule_free in every case;
 * `mistake` is filled with SCHEDULE_REFUSED. */
enum schedule_status schedule_parse(struct text content, struct schedule *schedule,
                                    struct schedule_mistake *mistake);

/* Releases the steps. */
void schedule_free(struct schedule *schedule);

/* Where one communicator stands.  Zero is "before the first call". */
struct schedule_place {
    uint64_t n_calls; /* of the step so far */
    uint64_t last_bytes;
    uint32_t step; /* schedule.n_steps once all steps are over */
    bool begun;
};

/* Moves on for a call of `n_bytes`, which then belongs to `place->step`.  True when that step
 * begins with this call. */
bool schedule_advance(const struct schedule *schedule, struct schedule_place *place,
                      uint64_t n_bytes);

/* The step of that number; NULL beyond the last one. */
const struct schedule_step *schedule_step_at(const struct schedule *schedule, uint32_t step);

/* What a step answers whatever is called; NULL for `silent`, for `rules` and where there is no
 * step. */
const struct candidate *schedule_answer(const struct schedule_step *step);

#endif
