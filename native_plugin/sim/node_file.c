/*
 * Reading a .node file: a record a line, its words in the order of the tables below, to which
 * rccltune/simulate/compiled.py keeps; there people's mistakes are found, here those of a file.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"
#include "release.h"
#include "text.h"

static const char *const first_line = "rccltune-node 2";
enum { LONGEST_LINE = 2048, MAX_ELEMENTS = 1 << 20 };

struct reader {
    struct node *node;
    struct text words; /* what is left of the line */
    const char *mistake;
    unsigned seen;              /* records, a bit each */
    struct points *open_points; /* where `point` lines go; NULL where none may follow */
    struct effect *open_effect;
    struct variant *open_variant;
    struct loose { /* a record that `then` puts where it belongs */
        int kind, channels;
        int64_t bytes;
        double value;
        char path[24];
        struct condition condition;
    } loose;
};

static bool say(struct reader *reader, const char *mistake)
{
    reader->mistake = mistake;
    return false;
}

/* What a word may be, and where it goes; `low` below 0 lets "-" stand for -1. */
enum { NONE, FLAG, INT, BYTES, NUMBER, TEXT, NAME, SETTING, VARIANT };
struct field {
    int kind;
    size_t at;
    double low, high;
    const char *const *names;
};

/* tree/ll or the name of a path: three numbers in a row. */
static bool take_setting(struct reader *reader, struct text word, int *at)
{
    struct text half;
    if (memchr(word.at, '/', text_length(word)) == NULL) {
        for (int i = 1; i < reader->node->n_paths; i++) {
            if (text_equals(word, reader->node->path_names[i])) {
                at[0] = i;
                return true;
            }
        }
        return say(reader, "a setting is neither algorithm/protocol nor a known path");
    }
    at[0] = PATH_TUNED;
    text_split(&word, '/', &half);
    at[1] = find_name(half.at, text_length(half), algorithm_names, N_ALGORITHMS);
    text_split(&word, '/', &half);
    at[2] = find_name(half.at, text_length(half), protocol_names, N_PROTOCOLS);
    return (at[1] >= 0 && at[2] >= 0 && word.at == NULL) || say(reader, "a setting is unknown");
}

static bool take_variant(struct reader *reader, struct text word, int *at)
{
    for (int i = 0; i < reader->node->n_variants; i++) {
        if (text_equals(word, reader->node->variants[i].name)) {
            *at = i;
            return true;
        }
    }
    return say(reader, "a variant is not defined above");
}

static bool take(struct reader *reader, const struct field *field, char *base)
{
    struct text word;
    int64_t whole;
    void *at = base + field->at;
    int *number = at;
    if (!text_split(&reader->words, ' ', &word) || text_length(word) == 0)
        return say(reader, "a word is missing");
    if (field->kind == SETTING)
        number[0] = number[1] = number[2] = -1;
    if (field->kind >= INT && field->low < 0 && text_equals(word, "-")) {
        *number = -1;
        return true;
    }
    switch (field->kind) {
    case FLAG:
        if (!text_to_int(word, 0, 1, &whole))
            break;
        *(bool *)at = whole == 1;
        return true;
    case INT:
        if (!text_to_int(word, (int64_t)field->low, (int64_t)field->high, &whole))
            break;
        *number = (int)whole;
        return true;
    case BYTES:
        if (!text_to_int(word, (int64_t)field->low, INT64_MAX, at))
            break;
        return true;
    case NUMBER:
        return text_to_double(word, field->low, field->high, at) ||
               say(reader, "a number is out of range");
    case TEXT:
        return text_copy(word, at, (size_t)field->high) ||
               say(reader, "a text is too long or badly escaped");
    case NAME:
        *number = find_name(word.at, text_length(word), field->names, (int)field->high);
        return *number >= 0 || say(reader, "a name is unknown");
    case SETTING:
        return take_setting(reader, word, number);
    default:
        return take_variant(reader, word, number);
    }
    return say(reader, "a whole number is out of range");
}

/* Room for one more element at the end of an array; the new element is zeroed. */
static void *grow(void *array, int *n, size_t element)
{
    /* Powers of two, so that reading a file costs no quadratic copying. */
    if ((*n & (*n - 1)) == 0) {
        size_t room = *n == 0 ? 1 : 2 * (size_t)*n;
        void *larger = *n < MAX_ELEMENTS ? realloc(array, room * element) : NULL;
        if (larger == NULL)
            sim_fail("no memory for the node file");
        array = larger;
    }
    memset((char *)array + (size_t)*n * element, 0, element);
    ++*n;
    return array;
}

/* One more point of a function of the size; `value` as it is interpolated. */
static bool add_point(struct reader *reader, struct points *points, int64_t bytes, double value)
{
    double log_bytes = log2((double)bytes);
    if (points->n > 0 && log_bytes <= points->log_bytes[points->n - 1])
        return say(reader, "the sizes of the points do not ascend");
    int n = points->n;
    points->log_bytes = grow(points->log_bytes, &n, sizeof *points->log_bytes);
    points->log_value = grow(points->log_value, &points->n, sizeof *points->log_value);
    points->log_bytes[n - 1] = log_bytes;
    points->log_value[n - 1] = value;
    return true;
}

static bool then_point(struct reader *r, void *loose)
{
    const struct loose *point = loose;
    if (r->open_points == NULL)
        return say(r, "a point belongs to nothing");
    return add_point(r, r->open_points, point->bytes, log2(point->value));
}

static bool then_spread(struct reader *r, void *loose)
{
    const struct loose *point = loose;
    return add_point(r, &r->node->spreads[point->kind], point->bytes, point->value);
}

static bool then_path(struct reader *r, void *loose)
{
    struct node *node = r->node;
    if (node->n_paths == MAX_PATHS)
        return say(r, "there are too many paths");
    strcpy(node->path_names[node->n_paths++], ((struct loose *)loose)->path);
    return true;
}

static bool then_drift(struct reader *r, void *element)
{
    const struct drift_point *point = element;
    return r->node->n_drift == 1 || point->seconds > point[-1].seconds ||
           say(r, "the points of the drift do not ascend");
}

static bool then_variant(struct reader *r, void *element)
{
    r->open_variant = element;
    return true;
}

static bool then_when(struct reader *r, void *loose)
{
    const struct condition *c = &((struct loose *)loose)->condition;
    struct variant *v = r->open_variant;
    if (v == NULL)
        return say(r, "a condition stands outside a variant");
    if ((c->kind == WHEN_WITHOUT && c->variant < 0) ||
        (c->kind == WHEN_BESIDE && c->collective < 0))
        return say(r, "a condition is of nothing");
    v->conditions = grow(v->conditions, &v->n_conditions, sizeof *v->conditions);
    v->conditions[v->n_conditions - 1] = *c;
    return true;
}

static bool then_curve(struct reader *r, void *element)
{
    struct curve *curve = element;
    r->open_points = &curve->points;
    return (curve->where.collective >= 0 && curve->where.path >= 0) ||
           say(r, "a curve needs a collective and a setting");
}

static bool then_effect(struct reader *r, void *element)
{
    struct effect *effect = element;
    if (effect->shape == SHAPE_POINTS)
        r->open_points = &effect->points;
    if (effect->shape == SHAPE_CHANNELS)
        r->open_effect = effect;
    if (effect->after != AFTER_ANY && effect->mixed != MIXED_ALWAYS)
        return say(r, "an effect acts after one thing alone");
    return (effect->after == AFTER_ANY) == (effect->path < 0) ||
           say(r, "an effect acts after a setting, or after none");
}

static bool then_row(struct reader *r, void *loose)
{
    struct effect *effect = r->open_effect;
    int channels = ((struct loose *)loose)->channels;
    if (effect == NULL)
        return say(r, "a row stands outside a channel scaling");
    if (effect->n_rows > 0 && effect->rows[effect->n_rows - 1].channels >= channels)
        return say(r, "the rows of the channel scaling do not ascend");
    effect->rows = grow(effect->rows, &effect->n_rows, sizeof *effect->rows);
    effect->rows[effect->n_rows - 1].channels = channels;
    r->open_points = &effect->rows[effect->n_rows - 1].points;
    return true;
}

static bool then_bypass(struct reader *r, void *element)
{
    return ((struct bypass *)element)->path > PATH_TUNED || say(r, "a bypass is no path");
}

static bool then_fault(struct reader *r, void *element)
{
    const struct fault *f = element;
    if ((f->kind == FAULT_SUBSTITUTE || f->kind == FAULT_DIFFERS) && f->path < 0)
        return say(r, "a fault lacks the setting that runs instead");
    return f->kind != FAULT_SHIFT || f->number == 1 || f->number == -1 ||
           say(r, "a shift is of one pass");
}

static const char *const halves[] = {"out", "in"};
static const char *const afters[] = {"-", "launch", "pass"};
static const char *const shapes[] = {"factor", "points", "between", "channels"};
static const char *const spread_names[] = {"sigma", "launch", "setting"};
static const char *const when_names[N_WHENS] = {"env",        "set",    "unset",    "graph",
                                                "registered", "patch",  "launches", "threads",
                                                "gpus",       "beside", "without"};
static const char *const fault_names[N_FAULTS] = {
    "hang",    "crash",     "wrong",      "substitute", "no-plugin", "no-file",
    "differs", "slow-rank", "info-lines", "init-error", "shift"};
static const char *const crash_names[N_CRASHES] = {"segv", "abort", "kill", "exit", "memory-fault"};

/* clang-format off */
#define IN(type, member)                offsetof(struct type, member)
#define A_FLAG(type, member)            {FLAG, IN(type, member), 0, 1, NULL}
#define AN_INT(type, member, low, high) {INT, IN(type, member), low, high, NULL}
#define A_SIZE(type, member, low)       {BYTES, IN(type, member), low, 0, NULL}
#define A_NUMBER(type, member, low, high) {NUMBER, IN(type, member), low, high, NULL}
#define A_TEXT(type, member)            {TEXT, IN(type, member), 0, sizeof(((struct type *)0)->member), NULL}
#define A_NAME(type, member, low, names, n) {NAME, IN(type, member), low, n, names}
#define A_SETTING(type, member)         {SETTING, IN(type, member), -1, 0, NULL}
#define A_VARIANT(type, member)         {VARIANT, IN(type, member), -1, 0, NULL}
#define A_SELECTOR(type)                                                                           \
    A_NAME(type, where.collective, -1, collective_names, N_COLLECTIVES),                           \
    A_SETTING(type, where.path), AN_INT(type, where.cap, -1, MAX_CHANNELS),                        \
    AN_INT(type, where.ranks, -1, MAX_RANKS),                                                      \
    A_NAME(type, where.placement, -1, place_names, N_PLACES), A_VARIANT(type, where.variant),      \
    A_NAME(type, where.in_place, -1, halves, 2),                                                   \
    A_NAME(type, where.dtype, -1, dtype_names, N_DTYPES),                                          \
    A_SIZE(type, where.min_bytes, 0), A_SIZE(type, where.max_bytes, 0)
#define A_GRAPH(which)                                                                             \
    {AN_INT(node, which.channels, 1, MAX_CHANNELS), A_NUMBER(node, which.bw_intra, 0, 1e6),        \
     A_NUMBER(node, which.bw_inter, 0, 1e6), A_NUMBER(node, which.latency_inter, 0, 1e6)}
#define OF_NODE                         NULL, 0, 0, 0
#define OF(array, count)                IN(node, array), IN(node, count), sizeof(*((struct node *)0)->array)
#define LOOSE                           0, 0, 1

static const struct record {
    const char *keyword;
    bool (*then)(struct reader *reader, void *element);
    size_t array, n, size; /* the element's array in the node; size 0: the node, 1: LOOSE */
    struct field fields[20];
} records[] = {
    {"name", OF_NODE, {A_TEXT(node, name)}},
    {"hardware", OF_NODE,
     {A_TEXT(node, product), A_TEXT(node, arch), A_TEXT(node, mode), A_TEXT(node, host),
      AN_INT(node, compute_units, 1, 4096), A_SIZE(node, memory_mib, 1)}},
    {"scale", OF_NODE,
     {AN_INT(node, ranks, 1, MAX_RANKS), AN_INT(node, nodes, 1, MAX_RANKS),
      AN_INT(node, devices_per_oam, 1, MAX_RANKS), AN_INT(node, devices_per_iod, 0, MAX_RANKS)}},
    {"release", OF_NODE,
     {A_TEXT(node, rccl), A_NAME(node, benchmark, 0, benchmark_names, N_BENCHES), A_TEXT(node, library)}},
    {"library", OF_NODE,
     {AN_INT(node, tuning_model, MODEL_AUTO, 5), A_FLAG(node, nvlink_inside), A_FLAG(node, all_xgmi),
      A_FLAG(node, ll128_enabled), A_FLAG(node, rome_model), A_FLAG(node, intel_cpu),
      AN_INT(node, channels, 1, MAX_CHANNELS), AN_INT(node, channel_ceiling, 1, MAX_CHANNELS),
      A_FLAG(node, library_bypasses)}},
    {"ring", OF_NODE, A_GRAPH(ring)},
    {"tree", OF_NODE, A_GRAPH(tree)},
    {"start", OF_NODE,
     {A_NUMBER(node, startup_s, 0, 3600), A_NUMBER(node, first_use_us, 0, 1e9),
      AN_INT(node, first_use_calls, 0, 1 << 20)}},
    {"noise", OF_NODE,
     {A_NUMBER(node, sigma, 0, 1), A_NUMBER(node, launch_sigma, 0, 1), A_NUMBER(node, rank_sigma, 0, 1),
      A_NUMBER(node, outlier_rate, 0, 1), A_NUMBER(node, outlier_factor, 1e-3, 1e3),
      A_NUMBER(node, burst_probability, 0, 1), A_NUMBER(node, burst_seconds, 0, 1e6),
      A_NUMBER(node, burst_factor, 1e-3, 1e3)}},
    /* The ones above must be there. */
    {"linked", OF_NODE, A_GRAPH(linked)},
    {"spread", then_spread, LOOSE,
     {A_NAME(loose, kind, 0, spread_names, N_SPREADS), A_SIZE(loose, bytes, 1), A_NUMBER(loose, value, 0, 1)}},
    {"drift", then_drift, OF(drift, n_drift),
     {A_NUMBER(drift_point, seconds, 0, 1e9), A_NUMBER(drift_point, factor, 1e-3, 1e3)}},
    {"path", then_path, LOOSE, {A_TEXT(loose, path)}},
    {"variant", then_variant, OF(variants, n_variants), {A_TEXT(variant, name)}},
    {"when", then_when, LOOSE,
     {A_NAME(loose, condition.kind, 0, when_names, N_WHENS),
      A_NAME(loose, condition.collective, -1, collective_names, N_COLLECTIVES),
      A_VARIANT(loose, condition.variant), AN_INT(loose, condition.launches, 0, 1 << 20),
      A_TEXT(loose, condition.name), A_TEXT(loose, condition.value)}},
    {"curve", then_curve, OF(curves, n_curves),
     {A_SELECTOR(curve), A_FLAG(curve, measured), A_SIZE(curve, measured_min, 0),
      A_SIZE(curve, measured_max, 0), A_TEXT(curve, source)}},
    {"point", then_point, LOOSE, {A_SIZE(loose, bytes, 1), A_NUMBER(loose, value, 1e-6, 1e12)}},
    {"effect", then_effect, OF(effects, n_effects),
     {A_SELECTOR(effect), AN_INT(effect, mixed, 0, 2), A_NAME(effect, after, 0, afters, 3),
      A_SETTING(effect, path), A_FLAG(effect, first), A_NAME(effect, shape, 0, shapes, 4),
      A_NUMBER(effect, factor, 1e-6, 1e6), A_NUMBER(effect, low, 1, 2), A_NUMBER(effect, high, 1, 2)}},
    {"row", then_row, LOOSE, {AN_INT(loose, channels, 1, MAX_CHANNELS)}},
    {"bypass", then_bypass, OF(bypasses, n_bypasses),
     {A_SETTING(bypass, path), A_SELECTOR(bypass), A_TEXT(bypass, limit)}},
    {"fault", then_fault, OF(faults, n_faults),
     {A_NAME(fault, kind, 0, fault_names, N_FAULTS), A_SELECTOR(fault), AN_INT(fault, rank, -1, MAX_RANKS - 1),
      A_NUMBER(fault, probability, 0, 1), A_SIZE(fault, number, -1), A_NUMBER(fault, factor, 0, 1e3),
      A_NAME(fault, crash, 0, crash_names, N_CRASHES), A_SETTING(fault, path), A_TEXT(fault, message)}},
};
/* clang-format on */
enum { N_RECORDS = sizeof records / sizeof *records, N_NEEDED = 9 };

static bool read_record(struct reader *reader, struct text keyword)
{
    const struct record *record = records;
    while (record < records + N_RECORDS && !text_equals(keyword, record->keyword))
        record++;
    if (record == records + N_RECORDS)
        return say(reader, "the record is unknown");
    reader->seen |= 1u << (record - records);
    /* Only `point` and `row` lines belong to what stands above them. */
    if (record->then != then_point)
        reader->open_points = NULL;
    if (record->then != then_point && record->then != then_row)
        reader->open_effect = NULL;
    char *node = (char *)reader->node, *base = record->size == 1 ? (char *)&reader->loose : node;
    if (record->size > 1) {
        void *array;
        int *n = (int *)(void *)(node + record->n);
        memcpy(&array, node + record->array, sizeof array);
        array = grow(array, n, record->size);
        memcpy(node + record->array, &array, sizeof array);
        base = (char *)array + (size_t)(*n - 1) * record->size;
    }
    for (const struct field *field = record->fields; field->kind != NONE; field++) {
        if (!take(reader, field, base))
            return false;
    }
    if (reader->words.at != NULL)
        return say(reader, "there are words too many");
    return record->then == NULL || record->then(reader, base);
}

static void start(struct node *node)
{
    static const char *const paths[N_LIBRARY_PATHS] = {"tuned",   "p2p",    "msccl",
                                                       "mscclpp", "direct", "dda"};
    memset(node, 0, sizeof *node);
    for (int i = 0; i < N_LIBRARY_PATHS; i++)
        strcpy(node->path_names[i], paths[i]);
    node->n_paths = N_LIBRARY_PATHS;
}

bool node_parse(const char *data, size_t length, struct node *node, char *message, size_t size)
{
    struct reader reader = {.node = node};
    struct text rest = {data, data + length}, line, keyword = {NULL, NULL};
    int number = 0;
    bool ended = false;
    start(node);
    while (reader.mistake == NULL && text_split(&rest, '\n', &line)) {
        number++;
        if (text_length(line) > LONGEST_LINE)
            say(&reader, "the line is too long");
        else if (memchr(line.at, '\0', text_length(line)) != NULL)
            say(&reader, "this is no text");
        else if (number == 1 && !text_equals(line, first_line))
            say(&reader, "this is no .node file of format 2");
        else if (ended && text_length(line) != 0)
            say(&reader, "there is text behind the end");
        if (reader.mistake != NULL || number == 1 || text_length(line) == 0 || line.at[0] == '#')
            continue;
        reader.words = line;
        text_split(&reader.words, ' ', &keyword);
        if (text_equals(keyword, "end"))
            ended = true;
        else
            read_record(&reader, keyword);
    }
    if (reader.mistake == NULL && !ended)
        say(&reader, "the last line is not 'end': the file was cut off");
    if (reader.mistake == NULL)
        reader.mistake =
            (~reader.seen & ((1u << N_NEEDED) - 1)) != 0 ? "a record is missing" : node_gap(node);
    if (reader.mistake == NULL)
        return true;
    snprintf(message, size, "line %d: %s", number, reader.mistake);
    node_free(node);
    return false;
}
