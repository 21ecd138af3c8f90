#include "history.h"

static uint64_t bit_of(const struct decision *d)
{
    return setting_bit(d->path, d->algorithm, d->protocol);
}

void history_new_pass(struct history *history)
{
    if (history->now.any != 0) /* one in which nothing ran (-w 0) is none */
        history->before = history->now;
    history->now = (struct pass){0};
}

void history_recall(const struct history *history, bool at_first_size, struct situation *s)
{
    uint64_t own = bit_of(&s->what), last = history->before.first;
    s->mixed = (history->now.any & ~own) != 0;
    s->mixed_launch = (history->launch & ~own) != 0;
    s->ran_before = history->launch;
    s->ran_in_pass_before = history->before.any;
    s->first_after_switch = at_first_size && last != 0 && (last & own) == 0;
}

void history_remember(struct history *history, bool at_first_size, const struct decision *d)
{
    history->launch |= bit_of(d);
    history->now.any |= bit_of(d);
    if (at_first_size)
        history->now.first |= bit_of(d);
}

double history_first_use(struct history *history, const struct node *node, const struct decision *d,
                         int n_calls)
{
    int *calls = &history->calls_of[d->path == PATH_TUNED ? d->algorithm : N_ALGORITHMS + d->path];
    int paying = node->first_use_calls - *calls;
    *calls += n_calls;
    if (paying <= 0 || node->first_use_us <= 0)
        return 0;
    return node->first_use_us * (double)(paying < n_calls ? paying : n_calls) / n_calls;
}

double noise_free_time(const struct node *node, const struct situation *s)
{
    if (s->ranks == 1) /* a copy within the device, or nothing at all in place (real log amd02) */
        return s->in_place ? 1.8 : 2.0 + (double)s->n_bytes / 2e6;
    double time = true_time(node, s);
    if (time < 0) {
        sim_fail("node file %s has no time for %s %s with %d ranks (%s): it lists the scales, "
                 "settings and variants that it knows",
                 node->name, collective_names[s->collective], decision_name(node, &s->what),
                 s->ranks, place_names[s->placement]);
    }
    return time;
}
