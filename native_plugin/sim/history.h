/* History of a communicator's calls, as far as the time of its next call depends on it. */
#ifndef RCCLTUNE_SIM_HISTORY_H
#define RCCLTUNE_SIM_HISTORY_H

#include "node.h"

/* Settings that ran in a pass over the sizes (setting_bit): at any size, and at its first. */
struct pass {
    uint64_t any, first;
};

struct history {
    struct pass now, before; /* the last pass before this one in which anything ran */
    uint64_t launch;         /* settings that ran in any pass, this one too */
    int calls_of[N_ALGORITHMS + MAX_PATHS]; /* since an algorithm was first used */
};

void history_new_pass(struct history *history);
/* Fill in what a situation says of what ran before it. */
void history_recall(const struct history *history, bool at_first_size, struct situation *s);
void history_remember(struct history *history, bool at_first_size, const struct decision *d);

/* Mean microseconds that so many calls pay on top: connections are made at an algorithm's first
 * use. */
double history_first_use(struct history *history, const struct node *node, const struct decision *d,
                         int n_calls);

/* Microseconds of a call behind what ran before, without noise; where the node file says nothing
 * about it the program ends. */
double noise_free_time(const struct node *node, const struct situation *s);

#endif
