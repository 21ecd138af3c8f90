/* The records of a .node file, a function each; rccltune/simulate/compiled.py writes them. */
#include "node_lines.h"

#include <math.h>
#include <string.h>

static bool read_hardware(struct reader *r)
{
    struct node *n = r->node;
    return take_string(r, n->product, sizeof n->product) &&
           take_string(r, n->arch, sizeof n->arch) && take_string(r, n->mode, sizeof n->mode) &&
           take_string(r, n->host, sizeof n->host) && take_small(r, 1, 4096, &n->compute_units) &&
           take_int(r, 1, 1 << 24, &n->memory_mib);
}

static bool read_scale(struct reader *r)
{
    struct node *n = r->node;
    return take_small(r, 1, MAX_RANKS, &n->ranks) && take_small(r, 1, n->ranks, &n->nodes) &&
           take_small(r, 1, MAX_RANKS, &n->devices_per_oam) &&
           take_small(r, 0, n->devices_per_oam, &n->devices_per_iod);
}

static bool read_release(struct reader *r)
{
    static const char *const names[] = {"rt24", "rtmid", "rt25", "rtnew", "nt"};
    static const char *const libraries[] = {"rccl", "rcclx"};
    int library;
    if (!take_string(r, r->node->rccl, sizeof r->node->rccl) ||
        !take_name(r, names, 5, false, &r->node->benchmark) ||
        !take_name(r, libraries, 2, false, &library))
        return false;
    r->node->rcclx = library == 1;
    return true;
}

static bool read_graph(struct reader *r)
{
    static const char *const names[] = {"tree", "ring", "linked"};
    int which;
    if (!take_name(r, names, 3, false, &which))
        return false;
    struct node *n = r->node;
    struct graph *g = which == 0 ? &n->tree : which == 1 ? &n->ring : &n->linked;
    return take_small(r, 1, MAX_CHANNELS, &g->channels) && take_double(r, 0, 1e6, &g->bw_intra) &&
           take_double(r, 0, 1e6, &g->bw_inter) && take_double(r, 0, 1e6, &g->latency_inter);
}

static bool read_library(struct reader *r)
{
    static const char *const csv[] = {"release", "none", "old", "new"};
    struct node *n = r->node;
    return take_small(r, MODEL_AUTO, 8, &n->tuning_model) && take_flag(r, &n->nvlink_inside) &&
           take_flag(r, &n->all_xgmi) && take_flag(r, &n->ll128_enabled) &&
           take_flag(r, &n->rome_model) && take_flag(r, &n->intel_cpu) &&
           take_small(r, 1, MAX_CHANNELS, &n->channels) &&
           take_small(r, n->channels, MAX_CHANNELS, &n->channel_ceiling) &&
           take_flag(r, &n->library_bypasses) && take_name(r, csv, 4, false, &n->csv_tuner) &&
           take_double(r, 0, 1, &n->wrong_share);
}

static bool read_noise(struct reader *r)
{
    struct node *n = r->node;
    return take_double(r, 0, 1, &n->sigma) && take_double(r, 0, 1, &n->launch_sigma) &&
           take_double(r, 0, 1, &n->rank_sigma) && take_double(r, 0, 1, &n->outlier_rate) &&
           take_double(r, 1e-3, 1e3, &n->outlier_factor) &&
           take_double(r, 0, 1, &n->burst_probability) &&
           take_double(r, 0, 1e6, &n->burst_seconds) && take_double(r, 1e-3, 1e3, &n->burst_factor);
}

/* One more point of a function of the size; `value` as it is interpolated. */
static bool add_point(struct reader *r, struct points *points, int64_t bytes, double value)
{
    double log_bytes = log2((double)bytes);
    if (points->n > 0 && log_bytes <= points->log_bytes[points->n - 1])
        return say(r, "the sizes of the points do not ascend");
    int n = points->n;
    points->log_bytes = grow(points->log_bytes, &n, sizeof *points->log_bytes);
    points->log_value = grow(points->log_value, &points->n, sizeof *points->log_value);
    points->log_bytes[n - 1] = log_bytes;
    points->log_value[n - 1] = value;
    return true;
}

static bool read_spread(struct reader *r)
{
    static const char *const kinds[N_SPREADS] = {"sigma", "launch", "setting"};
    int kind;
    int64_t bytes;
    double sigma;
    return take_name(r, kinds, N_SPREADS, false, &kind) && take_int(r, 1, INT64_MAX, &bytes) &&
           take_double(r, 0, 1, &sigma) && add_point(r, &r->node->spreads[kind], bytes, sigma);
}

static bool read_start(struct reader *r)
{
    return take_double(r, 0, 3600, &r->node->startup_s) &&
           take_double(r, 0, 1e9, &r->node->first_use_us) &&
           take_small(r, 0, 1 << 20, &r->node->first_use_calls);
}

static bool read_drift(struct reader *r)
{
    struct node *n = r->node;
    n->drift = grow(n->drift, &n->n_drift, sizeof *n->drift);
    struct drift_point *point = &n->drift[n->n_drift - 1];
    if (!take_double(r, 0, 1e9, &point->seconds) || !take_double(r, 1e-3, 1e3, &point->factor))
        return false;
    return n->n_drift == 1 || point->seconds > point[-1].seconds ||
           say(r, "the points of the drift do not ascend");
}

static bool read_path(struct reader *r)
{
    struct node *n = r->node;
    if (n->n_paths == MAX_PATHS)
        return say(r, "there are too many paths");
    char *name = n->path_names[n->n_paths];
    if (!take_string(r, name, sizeof n->path_names[0]))
        return false;
    for (int i = 0; i < n->n_paths; i++) {
        if (strcmp(name, n->path_names[i]) == 0)
            return say(r, "the path is there already");
    }
    n->n_paths++;
    return true;
}

static bool read_variant(struct reader *r)
{
    struct node *n = r->node;
    n->variants = grow(n->variants, &n->n_variants, sizeof *n->variants);
    r->open_variant = &n->variants[n->n_variants - 1];
    return take_string(r, r->open_variant->name, sizeof r->open_variant->name);
}

static bool read_when(struct reader *r)
{
    static const char *const kinds[N_WHENS] = {
        "env",   "set",      "unset",   "graph", "registered",
        "patch", "launches", "threads", "gpus",  "beside",
    };
    struct variant *v = r->open_variant;
    int kind;
    if (v == NULL)
        return say(r, "a condition stands outside a variant");
    if (!take_name(r, kinds, N_WHENS, false, &kind))
        return false;
    v->conditions = grow(v->conditions, &v->n_conditions, sizeof *v->conditions);
    struct condition *c = &v->conditions[v->n_conditions - 1];
    c->kind = kind;
    if (kind == WHEN_GRAPH || kind == WHEN_REGISTERED || kind == WHEN_THREADS || kind == WHEN_GPUS)
        return true;
    if (kind == WHEN_LAUNCHES)
        return take_small(r, 1, 1 << 20, &c->number);
    if (kind == WHEN_BESIDE)
        return take_name(r, collective_names, N_COLLECTIVES, false, &c->number);
    if (!take_string(r, c->name, sizeof c->name))
        return false;
    return kind != WHEN_ENV || take_string(r, c->value, sizeof c->value);
}

static bool read_curve(struct reader *r)
{
    static const char *const kinds[] = {"modelled", "measured"};
    struct node *n = r->node;
    int kind;
    n->curves = grow(n->curves, &n->n_curves, sizeof *n->curves);
    struct curve *curve = &n->curves[n->n_curves - 1];
    if (!take_selector(r, &curve->where, false) || !take_name(r, kinds, 2, false, &kind) ||
        !take_int(r, 0, INT64_MAX, &curve->measured_min) ||
        !take_int(r, curve->measured_min, INT64_MAX, &curve->measured_max) ||
        !take_string(r, curve->source, sizeof curve->source))
        return false;
    if (curve->where.collective < 0 || curve->where.path < 0)
        return say(r, "a curve needs a collective and a setting");
    curve->measured = kind == 1;
    r->open_points = &curve->points;
    r->factors = false;
    return true;
}

static bool read_after(struct reader *r, struct effect *effect)
{
    static const char *const within[] = {"launch", "pass"};
    int which, path, algorithm, protocol;
    if (effect->after != AFTER_ANY || effect->mixed != MIXED_ALWAYS)
        return say(r, "an effect acts after one thing alone");
    if (!take_name(r, within, 2, false, &which) ||
        !take_setting(r, false, &path, &algorithm, &protocol))
        return false;
    effect->after = which == 0 ? AFTER_LAUNCH : AFTER_PASS;
    effect->setting = setting_bit(path, algorithm, protocol);
    return true;
}

/* The shape, and before it the words of what must have run before. */
static bool read_shape(struct reader *r, struct effect *effect)
{
    enum { AFTER = SHAPE_CHANNELS + 1, FIRST };
    static const char *const words[] = {"factor",   "points", "between",
                                        "channels", "after",  "first"};
    int word;
    for (;;) {
        if (!take_name(r, words, sizeof words / sizeof *words, false, &word))
            return false;
        if (word < AFTER)
            break;
        if (word == FIRST && effect->first)
            return say(r, "'first' stands there twice");
        if (word == FIRST)
            effect->first = true;
        else if (!read_after(r, effect))
            return false;
    }
    effect->shape = word;
    return true;
}

static bool read_effect(struct reader *r)
{
    struct node *n = r->node;
    n->effects = grow(n->effects, &n->n_effects, sizeof *n->effects);
    struct effect *effect = &n->effects[n->n_effects - 1];
    if (!take_selector(r, &effect->where, true) || !take_small(r, 0, 2, &effect->mixed) ||
        !read_shape(r, effect))
        return false;
    r->factors = true;
    if (effect->shape == SHAPE_BETWEEN &&
        (!take_double(r, 1, 2, &effect->low) || !take_double(r, effect->low, 2, &effect->high)))
        return false;
    if (effect->shape == SHAPE_FACTOR || effect->shape == SHAPE_BETWEEN)
        return take_double(r, 1e-6, 1e6, &effect->factor);
    if (effect->shape == SHAPE_POINTS)
        r->open_points = &effect->points;
    else
        r->open_scaling = effect;
    return true;
}

static bool read_row(struct reader *r)
{
    struct effect *effect = r->open_scaling;
    int channels;
    if (effect == NULL)
        return say(r, "a row stands outside a channel scaling");
    if (!take_small(r, 1, MAX_CHANNELS, &channels))
        return false;
    if (effect->n_rows > 0 && effect->rows[effect->n_rows - 1].channels >= channels)
        return say(r, "the rows of the channel scaling do not ascend");
    effect->rows = grow(effect->rows, &effect->n_rows, sizeof *effect->rows);
    effect->rows[effect->n_rows - 1].channels = channels;
    r->open_points = &effect->rows[effect->n_rows - 1].points;
    return true;
}

static bool read_point(struct reader *r)
{
    struct points *points = r->open_points;
    int64_t bytes;
    double value;
    if (points == NULL)
        return say(r, "a point belongs to nothing");
    return take_int(r, 1, INT64_MAX, &bytes) && take_double(r, 1e-6, 1e12, &value) &&
           add_point(r, points, bytes, log2(value));
}

static bool read_bypass(struct reader *r)
{
    struct node *n = r->node;
    int algorithm, protocol;
    n->bypasses = grow(n->bypasses, &n->n_bypasses, sizeof *n->bypasses);
    struct bypass *bypass = &n->bypasses[n->n_bypasses - 1];
    return take_setting(r, false, &bypass->path, &algorithm, &protocol) &&
           (bypass->path != PATH_TUNED || say(r, "a bypass is no path")) &&
           take_selector(r, &bypass->where, true);
}

static bool read_fault(struct reader *r)
{
    static const char *const kinds[N_FAULTS] = {
        "hang",    "crash",     "wrong",      "substitute", "no-plugin", "no-file",
        "differs", "slow-rank", "info-lines", "init-error", "shift",
    };
    static const char *const crashes[N_CRASHES] = {"segv", "abort", "kill", "exit", "memory-fault"};
    struct node *n = r->node;
    n->faults = grow(n->faults, &n->n_faults, sizeof *n->faults);
    struct fault *f = &n->faults[n->n_faults - 1];
    if (!take_name(r, kinds, N_FAULTS, false, &f->kind) || !take_selector(r, &f->where, true) ||
        !take_small(r, -1, MAX_RANKS - 1, &f->rank) || !take_double(r, 0, 1, &f->probability))
        return false;
    switch (f->kind) {
    case FAULT_CRASH:
        return take_name(r, crashes, N_CRASHES, false, &f->crash) &&
               take_int(r, 0, 255, &f->number);
    case FAULT_WRONG:
        return take_int(r, 1, INT64_MAX, &f->number);
    case FAULT_SUBSTITUTE:
    case FAULT_DIFFERS:
        return take_setting(r, false, &f->path, &f->algorithm, &f->protocol);
    case FAULT_SLOW_RANK:
        return take_double(r, 1e-3, 1e3, &f->factor);
    case FAULT_INFO_LINES:
        return take_double(r, 0, 1, &f->factor) && take_int(r, 0, 1, &f->number);
    case FAULT_INIT_ERROR:
        return take_string(r, f->message, sizeof f->message);
    case FAULT_SHIFT:
        return take_int(r, -1, 1, &f->number) &&
               (f->number != 0 || say(r, "a shift is of no pass"));
    default:
        return true;
    }
}

static bool read_name(struct reader *r)
{
    return take_string(r, r->node->name, sizeof r->node->name);
}

bool read_record(struct reader *reader, struct text keyword)
{
    static const struct {
        const char *keyword;
        bool (*read)(struct reader *reader);
    } records[] = {
        {"point", read_point},     {"curve", read_curve},       {"effect", read_effect},
        {"row", read_row},         {"fault", read_fault},       {"variant", read_variant},
        {"when", read_when},       {"path", read_path},         {"bypass", read_bypass},
        {"name", read_name},       {"hardware", read_hardware}, {"scale", read_scale},
        {"release", read_release}, {"graph", read_graph},       {"library", read_library},
        {"noise", read_noise},     {"start", read_start},       {"drift", read_drift},
        {"spread", read_spread},
    };
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        if (text_equals(keyword, records[i].keyword)) {
            /* Only `point` and `row` lines belong to what stands above them. */
            if (records[i].read != read_point)
                reader->open_points = NULL;
            if (records[i].read != read_point && records[i].read != read_row)
                reader->open_scaling = NULL;
            return records[i].read(reader);
        }
    }
    return say(reader, "the record is unknown");
}
