#include "node.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *setting_name(const struct node *node, int path, int algorithm, int protocol)
{
    static char name[48];
    if (path != PATH_TUNED)
        return node->paths[path].name;
    snprintf(name, sizeof name, "%s/%s", algorithm_names[algorithm], protocol_names[protocol]);
    return name;
}

bool selector_fits(const struct node *node, const struct selector *where, const struct situation *s)
{
    const struct decision *d = &s->what;
    if (where->collective >= 0 && where->collective != s->collective)
        return false;
    if (where->path >= 0 &&
        (where->path != d->path || (d->path == PATH_TUNED && (where->algorithm != d->algorithm ||
                                                              where->protocol != d->protocol))))
        return false;
    return (where->cap < 0 || where->cap == d->cap) &&
           (where->ranks < 0 || where->ranks == s->ranks) &&
           (where->placement < 0 || where->placement == s->placement) &&
           (where->variant < 0 || node->variants[where->variant].holds) &&
           (where->in_place < 0 || where->in_place == s->in_place) &&
           (where->dtype < 0 || where->dtype == s->dtype) &&
           (uint64_t)where->min_bytes <= s->n_bytes && s->n_bytes <= (uint64_t)where->max_bytes;
}

const struct fault *next_fault(const struct node *node, const struct fault *behind, int kind,
                               const struct situation *s)
{
    for (int i = behind != NULL ? (int)(behind - node->faults) + 1 : 0; i < node->n_faults; i++) {
        const struct fault *fault = &node->faults[i];
        if (fault->active && fault->kind == kind &&
            (s == NULL || selector_fits(node, &fault->where, s)))
            return fault;
    }
    return NULL;
}

/* Straight lines between the points on logarithmic axes; flat before the first.  Behind the last a
 * time grows with the size (nothing but bandwidth is left there), a factor stays. */
static double interpolate(const struct points *points, double x, bool is_time)
{
    const struct point *low = points->at, *last = low + points->n - 1;
    if (x <= low->x)
        return low->y;
    if (x >= last->x)
        return last->y + (is_time ? x - last->x : 0);
    while (low[1].x < x)
        low++;
    return low->y + (low[1].y - low->y) * (x - low->x) / (low[1].x - low->x);
}

/* The rows below and above, straight lines in the logarithm of the channels; flat outside. */
static double scaling(const struct effect *effect, int channels, double log_bytes)
{
    const struct channel_row *rows = effect->rows;
    int last = effect->n_rows - 1, i = 0;
    if (channels <= rows[0].channels)
        return interpolate(&rows[0].points, log_bytes, false);
    if (channels >= rows[last].channels)
        return interpolate(&rows[last].points, log_bytes, false);
    while (rows[i + 1].channels <= channels)
        i++;
    double low = interpolate(&rows[i].points, log_bytes, false);
    double high = interpolate(&rows[i + 1].points, log_bytes, false);
    double from = log2(rows[i].channels), to = log2(rows[i + 1].channels);
    return low + (high - low) * (log2(channels) - from) / (to - from);
}

/* The most particular curve that fits: a later variant before an earlier one, then exact channels,
 * placement, half of the row, type; the later in the file where all are equal.  A curve for exact
 * channels fits those only, any other fits all. */
static const struct curve *find_curve(const struct node *node, const struct situation *s)
{
    const struct curve *best = NULL;
    int best_score = -1;
    for (int i = 0; i < node->n_curves; i++) {
        const struct selector *w = &node->curves[i].where;
        if (!selector_fits(node, w, s))
            continue;
        int score = (w->variant + 1) * 32 + (w->cap >= 0) * 16 + (w->ranks >= 0) * 8 +
                    (w->placement >= 0) * 4 + (w->in_place >= 0) * 2 + (w->dtype >= 0);
        if (score >= best_score) {
            best = &node->curves[i];
            best_score = score;
        }
    }
    return best;
}

static double effect_log(const struct effect *effect, const struct situation *s, double log_bytes,
                         bool exact_channels)
{
    double within = exp2(log_bytes - floor(log_bytes));
    if (effect->points.n > 0)
        return interpolate(&effect->points, log_bytes, false);
    if (effect->n_rows >
        0) /* an exact curve already knows; 0 is the default that curves speak of */
        return exact_channels || s->what.cap == 0 ? 0 : scaling(effect, s->what.cap, log_bytes);
    return within >= effect->low && within <= effect->high ? log2(effect->factor) : 0;
}

/* Whether an effect acts behind what ran before this call. */
static bool history_fits(const struct effect *effect, const struct situation *s)
{
    uint64_t ran = effect->after == AFTER_LAUNCH ? s->ran_before : s->ran_in_pass_before;
    if (effect->after != AFTER_ANY &&
        (ran & setting_bit(effect->path, effect->algorithm, effect->protocol)) == 0)
        return false;
    if (effect->first && !s->first_after_switch)
        return false;
    return effect->mixed == MIXED_ALWAYS ||
           (effect->mixed == MIXED_PASS ? s->mixed : s->mixed_launch);
}

double true_time(const struct node *node, const struct situation *s)
{
    static const double nothing_us = 0.05; /* 0 bytes: a call that returns at once */
    const struct curve *curve = find_curve(node, s);
    if (curve == NULL)
        return -1;
    if (s->n_bytes == 0)
        return nothing_us;
    double log_bytes = log2((double)s->n_bytes);
    double log_time = interpolate(&curve->points, log_bytes, true);
    for (int i = 0; i < node->n_effects; i++) {
        const struct effect *effect = &node->effects[i];
        if (selector_fits(node, &effect->where, s) && history_fits(effect, s))
            log_time += effect_log(effect, s, log_bytes, curve->where.cap >= 0);
    }
    return exp2(log_time);
}

bool is_patched(const char *patch)
{
    const char *patches = getenv("RCCLTUNE_SIM_PATCHES");
    return patches != NULL && strstr(patches, patch) != NULL;
}

static bool condition_holds(const struct node *node, const struct condition *c,
                            const struct manner *manner)
{
    const char *value = getenv(c->name);
    switch (c->kind) {
    case WHEN_ENV:
        return value != NULL && strcmp(value, c->value) == 0;
    case WHEN_SET:
    case WHEN_UNSET:
        return (env_text(c->name) != NULL) == (c->kind == WHEN_SET);
    case WHEN_GRAPH:
        return manner->graph > 0;
    case WHEN_LAUNCHES:
        return manner->graph == c->launches;
    case WHEN_REGISTERED:
        return manner->registered;
    case WHEN_THREADS:
        return manner->threads > 1;
    case WHEN_GPUS:
        return manner->gpus > 1;
    case WHEN_WITHOUT:
        return !node->variants[c->variant].holds;
    default:
        return is_patched(c->name);
    }
}

void settle_variants(struct node *node, const struct manner *manner)
{
    for (int i = 0; i < node->n_variants; i++) {
        struct variant *v = &node->variants[i];
        v->holds = true;
        for (int j = 0; j < v->n_conditions; j++)
            v->holds = v->holds && condition_holds(node, &v->conditions[j], manner);
    }
}

/* splitmix64 (Steele, Lea, Flood 2014): one round mixes well enough for noise, and is quick. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t keys_of(uint64_t seed)
{
    return mix(seed);
}

uint64_t keys_with(uint64_t keys, uint64_t value)
{
    return mix(keys ^ mix(value));
}

uint64_t keys_with_text(uint64_t keys, const char *text)
{
    for (; *text != '\0'; text++)
        keys = keys_with(keys, (unsigned char)*text);
    return keys;
}

/* In [0, 1). */
static double keys_uniform(uint64_t keys)
{
    return (double)(mix(keys) >> 11) * 0x1p-53;
}

/* Standard normal. */
static double keys_normal(uint64_t keys)
{
    double u = 1.0 - keys_uniform(keys_with(keys, 1)), v = keys_uniform(keys_with(keys, 2));
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

enum {
    NOISE_LAUNCH = 1,
    NOISE_BLOCK,
    NOISE_OUTLIER,
    NOISE_RANK,
    NOISE_BURST,
    NOISE_FAULT,
    NOISE_SETTING
};

/* A replayed graph's noise is a tenth of a loop's, whose host launches each call (2 x H200). */
static const double quiet_share = 0.1;

static uint64_t block_keys(const struct noise *noise, const struct situation *s, uint64_t cycle,
                           uint64_t what)
{
    const struct decision *d = &s->what;
    uint64_t keys = keys_with(keys_of(noise->seed), what);
    keys = keys_with_text(keys, noise->launch);
    keys = keys_with(keys, (uint64_t)s->collective << 40 | (uint64_t)s->dtype << 32 |
                               (uint64_t)s->in_place << 24 | (uint64_t)d->path << 16 |
                               (uint64_t)d->algorithm << 8 | d->protocol);
    return keys_with(keys_with(keys_with(keys, s->n_bytes), cycle), d->cap);
}

/* A collective is as slow as its slowest rank, so a slow one slows them all. */
static double slowest_rank(const struct node *node, const struct situation *s)
{
    const struct fault *f = NULL;
    double factor = 1;
    while ((f = next_fault(node, f, FAULT_SLOW_RANK, s)) != NULL) {
        if (f->rank < s->ranks && f->factor > factor)
            factor = f->factor;
    }
    return factor;
}

static double sigma_at(const struct points *sigmas, size_t n_bytes)
{
    return sigmas->n > 0 ? interpolate(sigmas, log2((double)n_bytes), false) : 0;
}

/* The launch's draw is one for all sizes and settings, so a launch that is slow at one size is slow
 * at the next; a setting's is its own, and the same in all passes of the launch. */
static double scatter(const struct node *node, const struct noise *noise, const struct situation *s,
                      uint64_t cycle)
{
    const struct points *spreads = node->spreads;
    uint64_t launch = keys_with_text(keys_with(keys_of(noise->seed), NOISE_LAUNCH), noise->launch);
    double sigma = sigma_at(&spreads[SPREAD_BLOCK], s->n_bytes);
    double of_launch = sigma_at(&spreads[SPREAD_LAUNCH], s->n_bytes);
    double of_setting = sigma_at(&spreads[SPREAD_SETTING], s->n_bytes);
    double log_factor = sigma * keys_normal(block_keys(noise, s, cycle, NOISE_BLOCK)) +
                        of_launch * keys_normal(launch);
    if (of_setting > 0)
        log_factor += of_setting * keys_normal(block_keys(noise, s, 0, NOISE_SETTING));
    return exp(log_factor);
}

double block_factor(const struct node *node, const struct noise *noise, const struct situation *s,
                    uint64_t cycle, double clock)
{
    double factor = scatter(node, noise, s, cycle);
    if (keys_uniform(block_keys(noise, s, cycle, NOISE_OUTLIER)) < node->outlier_rate)
        factor *= node->outlier_factor;
    if (noise->quiet)
        factor = pow(factor, quiet_share);
    if (node->burst_seconds > 0) {
        uint64_t window = (uint64_t)(clock / node->burst_seconds);
        uint64_t burst = keys_with(keys_with(keys_of(noise->seed), NOISE_BURST), window);
        if (keys_uniform(burst) < node->burst_probability)
            factor *= node->burst_factor;
    }
    if (node->drift.n > 0)
        factor *= interpolate(&node->drift, clock, false);
    return factor * slowest_rank(node, s);
}

uint64_t rank_keys(const struct noise *noise, const struct situation *s, uint64_t cycle)
{
    return block_keys(noise, s, cycle, NOISE_RANK);
}

double rank_factor(const struct node *node, const struct noise *noise, uint64_t keys, int rank)
{
    double sigma = node->rank_sigma * (noise->quiet ? quiet_share : 1);
    return sigma > 0 ? exp(sigma * keys_normal(keys_with(keys, (uint64_t)rank))) : 1;
}

void settle_faults(struct node *node, const struct noise *noise)
{
    for (int i = 0; i < node->n_faults; i++) {
        uint64_t keys = keys_with(keys_with(keys_of(noise->seed), NOISE_FAULT), (uint64_t)i);
        keys = keys_with_text(keys, noise->launch);
        node->faults[i].active = keys_uniform(keys) < node->faults[i].probability;
    }
}
