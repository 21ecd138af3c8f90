/*
 * A node's file: a record a line, its words in the order of the tables below, to which
 * rccltune/simulate/compiled.py keeps; there people's mistakes are found, here those of a file.
 */
#include "node.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *const first_line = "rccltune-node 3";
enum { MAX_ELEMENTS = 1 << 20, LARGEST_FILE = 64 << 20 };

/* What the elements of an array belong to: the node, or the last variant or effect above. */
enum { NODE, VARIANT, EFFECT, N_OWNERS };

struct reader {
    struct node *node;
    struct text words; /* what is left of the line */
    const char *mistake;
    unsigned seen;         /* records, a bit each */
    char *owner[N_OWNERS]; /* NULL where there is none yet */
};

static bool say(struct reader *reader, const char *mistake)
{
    reader->mistake = mistake;
    return false;
}

/* What a word may be, and where it goes; `low` below 0 lets "-" stand for -1.  Points are all words
 * that are left, x:y, and kept as they are interpolated. */
enum { NONE, INT, BYTES, NUMBER, TEXT, NAME, SETTING, OF_VARIANT, TIMES, SIGMAS, DRIFT };
struct field {
    int kind;
    size_t at;
    double low, high;
    const char *const *names;
};

/* Which element of an array has this name, which stands first in it; -1 where none has. */
static int find_element(const void *array, int n, size_t size, struct text name)
{
    for (int i = 0; i < n; i++) {
        if (text_equals(name, (const char *)array + (size_t)i * size))
            return i;
    }
    return -1;
}

/* tree/ll or the name of a path: three numbers in a row. */
static bool take_setting(struct reader *reader, struct text word, int *at)
{
    const struct node *node = reader->node;
    struct text half;
    if (memchr(word.at, '/', text_length(word)) == NULL) {
        at[0] = find_element(node->paths, node->n_paths, sizeof *node->paths, word);
        return at[0] > PATH_TUNED ||
               say(reader, "a setting is neither algorithm/protocol nor a known path");
    }
    at[0] = PATH_TUNED;
    text_split(&word, '/', &half);
    at[1] = find_name(half, algorithm_names, N_ALGORITHMS, false);
    text_split(&word, '/', &half);
    at[2] = find_name(half, protocol_names, N_PROTOCOLS, false);
    return (at[1] >= 0 && at[2] >= 0 && word.at == NULL) || say(reader, "a setting is unknown");
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

static bool take_points(struct reader *reader, const struct field *field, struct points *points)
{
    struct text y, x;
    struct point point;
    double least = field->kind == DRIFT ? 0 : 1;
    while (text_split(&reader->words, ' ', &y)) {
        if (!text_split(&y, ':', &x) || !text_to_double(x, least, 1e19, &point.x) || y.at == NULL ||
            !text_to_double(y, field->low, field->high, &point.y))
            return say(reader, "a point is out of range");
        if (field->kind != DRIFT)
            point.x = log2(point.x);
        if (field->kind == TIMES)
            point.y = log2(point.y);
        if (points->n > 0 && point.x <= points->at[points->n - 1].x)
            return say(reader, "the points do not ascend");
        points->at = grow(points->at, &points->n, sizeof *points->at);
        points->at[points->n - 1] = point;
    }
    return true;
}

static bool take(struct reader *reader, const struct field *field, char *base)
{
    struct text word;
    int64_t whole;
    void *at = base + field->at;
    int *number = at;
    if (field->kind >= TIMES)
        return take_points(reader, field, at);
    if (!text_split(&reader->words, ' ', &word) || text_length(word) == 0)
        return say(reader, "a word is missing");
    if (field->kind == SETTING)
        number[0] = number[1] = number[2] = -1;
    if (field->kind >= INT && field->low < 0 && text_equals(word, "-")) {
        *number = -1;
        return true;
    }
    switch (field->kind) {
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
        *number = find_name(word, field->names, (int)field->high, false);
        return *number >= 0 || say(reader, "a name is unknown");
    case SETTING:
        return take_setting(reader, word, number);
    default:
        *number = find_element(reader->node->variants, reader->node->n_variants,
                               sizeof *reader->node->variants, word);
        return *number >= 0 || say(reader, "a variant is not defined above");
    }
    return say(reader, "a whole number is out of range");
}

static bool then_path(struct reader *r, void *element)
{
    (void)element;
    return r->node->n_paths <= MAX_PATHS || say(r, "there are too many paths");
}

static bool then_when(struct reader *r, void *element)
{
    const struct condition *c = element;
    return c->kind != WHEN_WITHOUT || c->variant >= 0 || say(r, "a condition is of nothing");
}

static bool then_curve(struct reader *r, void *element)
{
    const struct curve *curve = element;
    return (curve->where.collective >= 0 && curve->where.path >= 0 && curve->points.n > 0) ||
           say(r, "a curve needs a collective, a setting and points");
}

static bool then_row(struct reader *r, void *element)
{
    const struct channel_row *row = element,
                             *rows = ((struct effect *)(void *)r->owner[EFFECT])->rows;
    return (row->points.n > 0 && (row == rows || row->channels > row[-1].channels)) ||
           say(r, "the rows of the channel scaling have no points or do not ascend");
}

static bool then_fault(struct reader *r, void *element)
{
    const struct fault *f = element;
    return f->kind != FAULT_SUBSTITUTE || f->path >= 0 ||
           say(r, "a fault lacks the setting that runs instead");
}

const char *const place_names[N_PLACES] = {"node", "one-iod", "one-oam", "one-per-oam", "other"};
static const char *const halves[] = {"out", "in"};
static const char *const afters[] = {"-", "launch", "pass"};
static const char *const when_names[N_WHENS] = {"env",        "set",    "unset",    "graph",
                                                "registered", "patch",  "launches", "threads",
                                                "gpus",       "without"};
static const char *const fault_names[N_FAULTS] = {
    "hang",      "crash",   "wrong",     "wrong-replay", "substitute",
    "no-plugin", "no-file", "slow-rank", "init-error",   "shift"};
static const char *const crash_names[N_CRASHES] = {"segv", "abort", "kill", "exit", "memory-fault"};

/* clang-format off */
#define IN(type, member)                offsetof(struct type, member)
#define AN_INT(type, member, low, high) {INT, IN(type, member), low, high, NULL}
#define A_FLAG(type, member)            AN_INT(type, member, 0, 1)
#define A_SIZE(type, member, low)       {BYTES, IN(type, member), low, 0, NULL}
#define A_NUMBER(type, member, low, high) {NUMBER, IN(type, member), low, high, NULL}
#define A_TEXT(type, member)            {TEXT, IN(type, member), 0, sizeof(((struct type *)0)->member), NULL}
#define A_NAME(type, member, low, names, n) {NAME, IN(type, member), low, n, names}
#define A_SETTING(type, member, low)    {SETTING, IN(type, member), low, 0, NULL}
#define A_VARIANT(type, member)         {OF_VARIANT, IN(type, member), -1, 0, NULL}
#define A_SELECTOR(type)                                                                           \
    A_NAME(type, where.collective, -1, collective_names, N_COLLECTIVES),                           \
    A_SETTING(type, where.path, -1), AN_INT(type, where.cap, -1, MAX_CHANNELS),                        \
    AN_INT(type, where.ranks, -1, MAX_RANKS),                                                      \
    A_NAME(type, where.placement, -1, place_names, N_PLACES), A_VARIANT(type, where.variant),      \
    A_NAME(type, where.in_place, -1, halves, 2),                                                   \
    A_NAME(type, where.dtype, -1, dtype_names, N_DTYPES),                                          \
    A_SIZE(type, where.min_bytes, 0), A_SIZE(type, where.max_bytes, 0)
#define A_GRAPH(which)                                                                             \
    {AN_INT(node, which.channels, 1, MAX_CHANNELS), A_NUMBER(node, which.bw_intra, 0, 1e6),        \
     A_NUMBER(node, which.bw_inter, 0, 1e6), A_NUMBER(node, which.latency_inter, 0, 1e6)}
#define POINTS(type, member, kind, low, high) {kind, IN(type, member), low, high, NULL}
#define ITSELF                          NULL, NODE, 0, 0, 0, NODE
#define OF(owner, type, array, count)   OWNER(owner, type, array, count, NODE)
#define OWNER(owner, type, array, count, becomes)                                                  \
    owner, IN(type, array), IN(type, count), sizeof(*((struct type *)0)->array), becomes

static const struct record {
    const char *keyword;
    bool (*then)(struct reader *reader, void *element);
    int owner; /* of the array that gets an element; size 0: the record is of the node itself */
    size_t array, n, size;
    int becomes; /* the owner of what stands below; NODE: of nothing */
    struct field fields[20];
} records[] = {
    {"name", ITSELF, {A_TEXT(node, name)}},
    {"hardware", ITSELF,
     {A_TEXT(node, product), A_TEXT(node, arch), A_TEXT(node, mode), A_TEXT(node, host),
      AN_INT(node, compute_units, 1, 4096), A_SIZE(node, memory_mib, 1)}},
    {"scale", ITSELF,
     {AN_INT(node, ranks, 1, MAX_RANKS), AN_INT(node, nodes, 1, MAX_RANKS),
      AN_INT(node, devices_per_oam, 1, MAX_RANKS), AN_INT(node, devices_per_iod, 0, MAX_RANKS)}},
    {"release", ITSELF,
     {A_TEXT(node, rccl), A_NAME(node, benchmark, 0, benchmark_names, N_BENCHES), A_TEXT(node, library)}},
    {"library", ITSELF,
     {AN_INT(node, tuning_model, MODEL_AUTO, 5), A_FLAG(node, nvlink_inside), A_FLAG(node, all_xgmi),
      A_FLAG(node, ll128_enabled), A_FLAG(node, rome_model), A_FLAG(node, intel_cpu),
      AN_INT(node, channels, 1, MAX_CHANNELS), AN_INT(node, channel_ceiling, 1, MAX_CHANNELS),
      A_FLAG(node, library_bypasses), AN_INT(node, overwrites, -1, 1)}},
    {"ring", ITSELF, A_GRAPH(ring)},
    {"tree", ITSELF, A_GRAPH(tree)},
    {"start", ITSELF,
     {A_NUMBER(node, startup_s, 0, 3600), A_NUMBER(node, first_use_us, 0, 1e9),
      AN_INT(node, first_use_calls, 0, 1 << 20)}},
    {"noise", ITSELF,
     {A_NUMBER(node, rank_sigma, 0, 1),
      A_NUMBER(node, outlier_rate, 0, 1), A_NUMBER(node, outlier_factor, 1e-3, 1e3),
      A_NUMBER(node, burst_probability, 0, 1), A_NUMBER(node, burst_seconds, 0, 1e6),
      A_NUMBER(node, burst_factor, 1e-3, 1e3)}},
    /* The ones above must be there. */
    {"linked", ITSELF, A_GRAPH(linked)},
    {"order", NULL, OF(NODE, node, orders, n_orders), {A_TEXT(ring_order, ranks)}},
    {"sigma", ITSELF, {POINTS(node, spreads[SPREAD_BLOCK], SIGMAS, 0, 1)}},
    {"launch-sigma", ITSELF, {POINTS(node, spreads[SPREAD_LAUNCH], SIGMAS, 0, 1)}},
    {"setting-sigma", ITSELF, {POINTS(node, spreads[SPREAD_SETTING], SIGMAS, 0, 1)}},
    {"drift", ITSELF, {POINTS(node, drift, DRIFT, 1e-3, 1e3)}},
    {"path", then_path, OF(NODE, node, paths, n_paths), {A_TEXT(path, name)}},
    {"variant", NULL, OWNER(NODE, node, variants, n_variants, VARIANT), {A_TEXT(variant, name)}},
    {"when", then_when, OF(VARIANT, variant, conditions, n_conditions),
     {A_NAME(condition, kind, 0, when_names, N_WHENS),
      A_VARIANT(condition, variant), AN_INT(condition, launches, 0, 1 << 20),
      A_TEXT(condition, name), A_TEXT(condition, value)}},
    {"curve", then_curve, OF(NODE, node, curves, n_curves),
     {A_SELECTOR(curve), A_FLAG(curve, measured), A_SIZE(curve, measured_min, 0),
      A_SIZE(curve, measured_max, 0), A_TEXT(curve, source),
      POINTS(curve, points, TIMES, 1e-6, 1e12)}},
    {"effect", NULL, OWNER(NODE, node, effects, n_effects, EFFECT),
     {A_SELECTOR(effect), AN_INT(effect, mixed, 0, 2), A_NAME(effect, after, 0, afters, 3),
      A_SETTING(effect, path, -1), A_FLAG(effect, first), A_NUMBER(effect, low, 1, 2),
      A_NUMBER(effect, high, 1, 2), A_NUMBER(effect, factor, 1e-6, 1e6),
      POINTS(effect, points, TIMES, 1e-6, 1e12)}},
    {"row", then_row, OF(EFFECT, effect, rows, n_rows),
     {AN_INT(channel_row, channels, 1, MAX_CHANNELS),
      POINTS(channel_row, points, TIMES, 1e-6, 1e12)}},
    {"bypass", NULL, OF(NODE, node, bypasses, n_bypasses),
     {A_SETTING(bypass, path, 0), A_SELECTOR(bypass), A_TEXT(bypass, limit),
      AN_INT(bypass, chunks, 1, 1 << 20), AN_INT(bypass, min_channels, 0, MAX_CHANNELS)}},
    {"fault", then_fault, OF(NODE, node, faults, n_faults),
     {A_NAME(fault, kind, 0, fault_names, N_FAULTS), A_SELECTOR(fault), AN_INT(fault, rank, -1, MAX_RANKS - 1),
      A_NUMBER(fault, probability, 0, 1), A_SIZE(fault, number, -1), A_NUMBER(fault, factor, 0, 1e3),
      A_NAME(fault, crash, 0, crash_names, N_CRASHES), A_SETTING(fault, path, -1), A_TEXT(fault, message)}},
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
    char *base = reader->owner[record->owner];
    if (base == NULL)
        return say(reader, "the record belongs to nothing above");
    if (record->size > 0) {
        void *array;
        int *n = (int *)(void *)(base + record->n);
        memcpy(&array, base + record->array, sizeof array);
        array = grow(array, n, record->size);
        memcpy(base + record->array, &array, sizeof array);
        base = (char *)array + (size_t)(*n - 1) * record->size;
        if (record->becomes != NODE)
            reader->owner[record->becomes] = base;
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
    for (int i = 0; i < N_LIBRARY_PATHS; i++) {
        node->paths = grow(node->paths, &node->n_paths, sizeof *node->paths);
        strcpy(node->paths[i].name, paths[i]);
    }
}

bool node_parse(const char *data, size_t length, struct node *node, char *message, size_t size)
{
    struct reader reader = {.node = node, .owner = {(char *)node}};
    struct text rest = {data, data + length}, line, keyword = {NULL, NULL};
    int number = 0;
    bool ended = false;
    start(node);
    while (reader.mistake == NULL && text_split(&rest, '\n', &line)) {
        number++;
        if (memchr(line.at, '\0', text_length(line)) != NULL)
            say(&reader, "this is no text");
        else if (number == 1 && !text_equals(line, first_line))
            say(&reader, "this is no .node file of format 3");
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
    if (reader.mistake == NULL && (~reader.seen & ((1u << N_NEEDED) - 1)) != 0)
        say(&reader, "a record is missing");
    else if (reader.mistake == NULL && node->ranks % node->nodes != 0)
        say(&reader, "the nodes do not share the ranks evenly");
    if (reader.mistake == NULL)
        return true;
    snprintf(message, size, "line %d: %s", number, reader.mistake);
    node_free(node);
    return false;
}

void node_free(struct node *node)
{
    for (int i = 0; i < node->n_curves; i++)
        free(node->curves[i].points.at);
    for (int i = 0; i < node->n_effects; i++) {
        free(node->effects[i].points.at);
        for (int j = 0; j < node->effects[i].n_rows; j++)
            free(node->effects[i].rows[j].points.at);
        free(node->effects[i].rows);
    }
    for (int i = 0; i < node->n_variants; i++)
        free(node->variants[i].conditions);
    for (int i = 0; i < N_SPREADS; i++)
        free(node->spreads[i].at);
    free(node->drift.at);
    free(node->paths);
    free(node->curves);
    free(node->effects);
    free(node->faults);
    free(node->variants);
    free(node->bypasses);
    free(node->orders);
    memset(node, 0, sizeof *node);
}

void node_load(const char *path, struct node *node)
{
    if (path == NULL || *path == '\0')
        sim_fail("RCCLTUNE_SIM_NODE names no node file: this program is no benchmark, rccltune "
                 "starts it under --simulate");
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        sim_fail("cannot open the node file %s: %s", path, strerror(errno));
    long length = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    size_t size = length > 0 && length <= LARGEST_FILE ? (size_t)length : 0;
    char *data = malloc(size + 1);
    rewind(file);
    if (data == NULL || size == 0 || fread(data, 1, size, file) != size)
        sim_fail("cannot read the node file %s", path);
    fclose(file);
    char message[160];
    if (!node_parse(data, size, node, message, sizeof message))
        sim_fail("%s, %s", path, message);
    free(data);
}

int node_release(const struct node *node)
{
    const char *release = env_text("RCCLTUNE_SIM_RELEASE");
    if (release == NULL)
        release = node->rccl;
    int code = version_code(release);
    if (code == 0)
        sim_fail("'%s' is no release of RCCL from 2.20.5 on", release);
    return code;
}
