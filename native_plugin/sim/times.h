/*
 * What is true on the simulated node (curves, effects) and what a benchmark sees of it (noise,
 * bursts, drift).  rccltune/simulate/true_times.py computes the same truth independently; tests
 * compare the two.
 */
#ifndef RCCLTUNE_SIM_TIMES_H
#define RCCLTUNE_SIM_TIMES_H

#include "node.h"

struct situation {
    int collective;
    struct decision what;
    int ranks, placement, in_place, dtype;
    size_t n_bytes;
    /* What ran before. */
    bool mixed, mixed_launch;                /* another setting: in this pass, in this launch */
    uint64_t ran_before, ran_in_pass_before; /* in this launch, in the pass before: setting_bit */
    bool first_after_switch; /* first size of a pass, and another setting ran there in the last */
};

bool selector_fits(const struct node *node, const struct selector *where,
                   const struct situation *s);

/* Noise-free microseconds of one call; negative where the node file says nothing about it.
 * `measured`, unless NULL, tells whether a published measurement covers this size. */
double true_time(const struct node *node, const struct situation *s, bool *measured);

/* What the benchmark was asked for, as far as variants know it. */
struct manner {
    int graph; /* launches of a captured graph; 0 without one */
    bool registered;
    int threads, gpus; /* of a process, of a thread */
    uint32_t beside;   /* collectives that other jobs run at the same time, a bit each */
};

/* Decide which variants hold, from the environment and from what the benchmark was asked. */
void settle_variants(struct node *node, const struct manner *manner);

/* Uniform in [0, 1) and standard normal, functions of their keys alone: the same on every machine,
 * in every process, in any order. */
struct keys {
    uint64_t state;
};
struct keys keys_of(uint64_t seed);
struct keys keys_with(struct keys keys, uint64_t value);
struct keys keys_with_text(struct keys keys, const char *text);
double keys_uniform(struct keys keys);
double keys_normal(struct keys keys);

struct noise {
    uint64_t seed;
    const char *launch;
};

/* Factor on the time of one timed block: its own noise, the launch's, the setting's in it,
 * outliers, and what the simulated clock (seconds since the sweep began) says about bursts and
 * drift. */
double block_factor(const struct node *node, const struct noise *noise, const struct situation *s,
                    uint64_t cycle, double clock);
double rank_factor(const struct node *node, const struct noise *noise, const struct situation *s,
                   uint64_t cycle, int rank);

/* Draw which faults this launch has. */
void settle_faults(struct node *node, const struct noise *noise);

#endif
