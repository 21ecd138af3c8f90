#include "rule_table.h"

#include "names.h"

#include <stdlib.h>
#include <string.h>

/* One (cell, numPipeOps, regBuff): of the rules of a kind that hold at a size, only the first in
 * file order can ever be reached.  The rules in force are kept in a binary heap by file order; one
 * that has ended is removed when it comes to the top. */
struct kind {
    int32_t n_pipe_ops;
    int32_t reg_buff;
    int8_t algorithm;
    int8_t protocol;
    uint32_t *heap; /* candidate indices */
    uint32_t n_heap;
    uint32_t room;
};

/* A rule of the collective at hand, sorted by where it begins. */
struct span {
    uint64_t min_bytes;
    uint32_t candidate;
    uint32_t kind;
};

/* Memory and state of one build; everything here is temporary except `table`'s own arrays. */
struct builder {
    struct rule_table *table;
    struct candidate *candidates;
    uint64_t *ends;       /* max_bytes of each candidate */
    struct span *spans;   /* of the collective at hand */
    uint64_t *edges;      /* where its rules begin and end, sorted, unique */
    uint32_t *heap_space; /* shared out among the kinds */
    uint32_t *order;
    size_t n_order;
    size_t order_room;
    struct kind kinds[TABLE_MAX_KINDS];
    uint32_t n_kinds;
};

bool rule_is_for_scale(const struct rule *rule, uint64_t n_nodes, uint64_t n_ranks)
{
    return (rule->n_nodes < 0 || (uint64_t)rule->n_nodes == n_nodes) &&
           (rule->n_ranks < 0 || (uint64_t)rule->n_ranks == n_ranks);
}

bool rule_is_for(const struct rule *rule, const struct scale *scale)
{
    struct mode only = rule->only_mode;
    return rule_is_for_scale(rule, scale->n_nodes, scale->n_ranks) &&
           (only.compute == COMPUTE_UNKNOWN || only.compute == scale->mode.compute) &&
           (only.memory == 0 || only.memory == scale->mode.memory);
}

static int compare_spans(const void *a, const void *b)
{
    const struct span *x = a;
    const struct span *y = b;
    if (x->min_bytes != y->min_bytes) {
        return x->min_bytes < y->min_bytes ? -1 : 1;
    }
    return x->candidate < y->candidate ? -1 : 1; /* indices are distinct */
}

static int compare_edges(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void heap_push(struct kind *kind, uint32_t item)
{
    uint32_t at = kind->n_heap++;
    while (at > 0 && kind->heap[(at - 1) / 2] > item) {
        kind->heap[at] = kind->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    kind->heap[at] = item;
}

static void heap_pop(struct kind *kind)
{
    uint32_t item = kind->heap[--kind->n_heap];
    uint32_t at = 0;
    for (uint32_t child = 1; child < kind->n_heap; child = 2 * at + 1) {
        if (child + 1 < kind->n_heap && kind->heap[child + 1] < kind->heap[child]) {
            child++;
        }
        if (kind->heap[child] >= item) {
            break;
        }
        kind->heap[at] = kind->heap[child];
        at = child;
    }
    kind->heap[at] = item;
}

/* The kind of a candidate, made if it is new; TABLE_MAX_KINDS when there are too many. */
static uint32_t kind_of(struct builder *builder, const struct candidate *candidate)
{
    for (uint32_t i = 0; i < builder->n_kinds; i++) {
        const struct kind *kind = &builder->kinds[i];
        if (kind->algorithm == candidate->algorithm && kind->protocol == candidate->protocol &&
            kind->n_pipe_ops == candidate->n_pipe_ops && kind->reg_buff == candidate->reg_buff) {
            return i;
        }
    }
    if (builder->n_kinds == TABLE_MAX_KINDS) {
        return TABLE_MAX_KINDS;
    }
    builder->kinds[builder->n_kinds] = (struct kind){.n_pipe_ops = candidate->n_pipe_ops,
                                                     .reg_buff = candidate->reg_buff,
                                                     .algorithm = candidate->algorithm,
                                                     .protocol = candidate->protocol};
    return builder->n_kinds++;
}

/* Collects the rules of one collective into spans and edges; the number of spans, or -1. */
static int64_t collect(struct builder *builder, const struct rule *rules, size_t n,
                       const struct scale *scale, int collective, size_t *n_edges)
{
    uint32_t n_spans = 0;
    uint32_t candidate = 0;
    uint32_t used = 0;
    *n_edges = 1;
    builder->edges[0] = 0;
    builder->n_kinds = 0;
    for (size_t i = 0; i < n; i++) {
        if (!rule_is_for(&rules[i], scale)) {
            continue;
        }
        uint32_t mine = candidate++;
        if (rules[i].collective != collective) {
            continue;
        }
        uint32_t kind = kind_of(builder, &builder->candidates[mine]);
        if (kind == TABLE_MAX_KINDS) {
            return -1;
        }
        builder->kinds[kind].room++;
        builder->spans[n_spans++] = (struct span){rules[i].min_bytes, mine, kind};
        builder->edges[(*n_edges)++] = rules[i].min_bytes;
        if (rules[i].max_bytes != UINT64_MAX) {
            builder->edges[(*n_edges)++] = rules[i].max_bytes + 1;
        }
    }
    for (uint32_t i = 0; i < builder->n_kinds; i++) {
        builder->kinds[i].heap = builder->heap_space + used;
        used += builder->kinds[i].room;
    }
    qsort(builder->spans, n_spans, sizeof(struct span), compare_spans);
    qsort(builder->edges, *n_edges, sizeof(uint64_t), compare_edges);
    return n_spans;
}

/* Writes the candidates in force at `edge` to `list`, in file order, without those that a wider
 * rule for the same cell, or one that leaves everything to the host, puts out of reach. */
static uint32_t list_candidates(struct builder *builder, uint64_t edge, uint32_t *list)
{
    uint32_t first_any[N_KNOWN_ALGORITHMS + 1][N_KNOWN_PROTOCOLS + 1];
    uint32_t n = 0;
    memset(first_any, 0xff, sizeof first_any);
    for (uint32_t i = 0; i < builder->n_kinds; i++) {
        struct kind *kind = &builder->kinds[i];
        while (kind->n_heap > 0 && builder->ends[kind->heap[0]] < edge) {
            heap_pop(kind);
        }
        if (kind->n_heap > 0 && kind->n_pipe_ops < 0 && kind->reg_buff < 0) {
            first_any[kind->algorithm + 1][kind->protocol + 1] = kind->heap[0];
        }
    }
    for (uint32_t i = 0; i < builder->n_kinds; i++) {
        const struct kind *kind = &builder->kinds[i];
        if (kind->n_heap == 0 || first_any[0][0] < kind->heap[0] ||
            first_any[kind->algorithm + 1][kind->protocol + 1] < kind->heap[0]) {
            continue;
        }
        uint32_t at = n++;
        while (at > 0 && list[at - 1] > kind->heap[0]) {
            list[at] = list[at - 1];
            at--;
        }
        list[at] = kind->heap[0];
    }
    return n;
}

static enum rule_table_status append_list(struct builder *builder, const uint32_t *list, uint32_t n,
                                          struct segment_list *where)
{
    if (builder->n_order + n > TABLE_MAX_CANDIDATES) {
        return RULE_TABLE_TOO_MANY_CANDIDATES;
    }
    if (builder->n_order + n > builder->order_room) {
        size_t room = 2 * builder->order_room + TABLE_MAX_KINDS;
        uint32_t *bigger = realloc(builder->order, room * sizeof *bigger);
        if (bigger == NULL) {
            return RULE_TABLE_NO_MEMORY;
        }
        builder->order = bigger;
        builder->order_room = room;
    }
    *where = (struct segment_list){.first = (uint32_t)builder->n_order, .count = n};
    if (n > 0) {
        where->head = builder->candidates[list[0]];
        memcpy(builder->order + builder->n_order, list, n * sizeof *list);
    }
    builder->n_order += n;
    return RULE_TABLE_OK;
}

/* Walks the edges upwards and writes a segment wherever the candidates change. */
static enum rule_table_status sweep(struct builder *builder, size_t n_spans, size_t n_edges,
                                    uint64_t *starts, struct segment_list *lists,
                                    uint32_t *n_segments)
{
    uint32_t list[TABLE_MAX_KINDS];
    size_t next = 0;
    *n_segments = 0;
    for (size_t i = 0; i < n_edges; i++) {
        uint64_t edge = builder->edges[i];
        if (i > 0 && edge == builder->edges[i - 1]) {
            continue;
        }
        for (; next < n_spans && builder->spans[next].min_bytes == edge; next++) {
            heap_push(&builder->kinds[builder->spans[next].kind], builder->spans[next].candidate);
        }
        uint32_t n = list_candidates(builder, edge, list);
        const struct segment_list *before = *n_segments > 0 ? &lists[*n_segments - 1] : NULL;
        if (before != NULL && before->count == n &&
            (n == 0 || memcmp(builder->order + before->first, list, n * sizeof *list) == 0)) {
            continue;
        }
        enum rule_table_status status = append_list(builder, list, n, &lists[*n_segments]);
        if (status != RULE_TABLE_OK) {
            return status;
        }
        starts[(*n_segments)++] = edge;
    }
    return RULE_TABLE_OK;
}

static enum rule_table_status build_collective(struct builder *builder, const struct rule *rules,
                                               size_t n, const struct scale *scale, int collective)
{
    struct collective_segments *segments = &builder->table->of[collective];
    size_t n_edges = 0;
    int64_t n_spans = collect(builder, rules, n, scale, collective, &n_edges);
    if (n_spans < 0) {
        return RULE_TABLE_TOO_MANY_KINDS;
    }
    if (n_spans == 0) {
        return RULE_TABLE_OK;
    }
    uint64_t *starts = calloc(n_edges, sizeof *starts);
    struct segment_list *lists = calloc(n_edges, sizeof *lists);
    segments->starts = starts;
    segments->lists = lists;
    if (starts == NULL || lists == NULL) {
        return RULE_TABLE_NO_MEMORY;
    }
    return sweep(builder, (size_t)n_spans, n_edges, starts, lists, &segments->count);
}

static uint32_t fill_candidates(struct builder *builder, const struct rule *rules, size_t n,
                                const struct scale *scale)
{
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (!rule_is_for(&rules[i], scale)) {
            continue;
        }
        builder->ends[count] = rules[i].max_bytes;
        builder->candidates[count++] = (struct candidate){.n_pipe_ops = rules[i].n_pipe_ops,
                                                          .reg_buff = rules[i].reg_buff,
                                                          .channels = rules[i].channels,
                                                          .algorithm = rules[i].algorithm,
                                                          .protocol = rules[i].protocol,
                                                          .line = rules[i].line};
    }
    return count;
}

static enum rule_table_status fill(struct builder *builder, const struct rule *rules, size_t n,
                                   size_t n_applicable, const struct scale *scale)
{
    builder->candidates = calloc(n_applicable + 1, sizeof *builder->candidates);
    builder->table->candidates = builder->candidates;
    builder->ends = calloc(n_applicable + 1, sizeof *builder->ends);
    builder->spans = calloc(n_applicable + 1, sizeof *builder->spans);
    builder->edges = calloc(2 * n_applicable + 1, sizeof *builder->edges);
    builder->heap_space = calloc(n_applicable + 1, sizeof *builder->heap_space);
    if (builder->candidates == NULL || builder->ends == NULL || builder->spans == NULL ||
        builder->edges == NULL || builder->heap_space == NULL) {
        return RULE_TABLE_NO_MEMORY;
    }
    builder->table->n_candidates = fill_candidates(builder, rules, n, scale);
    for (int collective = 0; collective < TABLE_N_COLLECTIVES; collective++) {
        enum rule_table_status status = build_collective(builder, rules, n, scale, collective);
        if (status != RULE_TABLE_OK) {
            return status;
        }
    }
    return RULE_TABLE_OK;
}

enum rule_table_status rule_table_build(const struct rule *rules, size_t n,
                                        const struct scale *scale, struct rule_table **table)
{
    size_t n_applicable = 0;
    struct builder *builder = calloc(1, sizeof *builder);
    struct rule_table *built = calloc(1, sizeof *built);
    enum rule_table_status status = RULE_TABLE_NO_MEMORY;
    *table = NULL;
    for (size_t i = 0; i < n; i++) {
        n_applicable += rule_is_for(&rules[i], scale) ? 1 : 0;
    }
    if (builder == NULL || built == NULL) {
        goto out;
    }
    builder->table = built;
    status = fill(builder, rules, n, n_applicable, scale);
    built->order = builder->order;
    if (status == RULE_TABLE_OK) {
        *table = built;
        built = NULL;
    }
out:
    if (builder != NULL) {
        free(builder->ends);
        free(builder->spans);
        free(builder->edges);
        free(builder->heap_space);
    }
    free(builder);
    rule_table_free(built);
    return status;
}

void rule_table_free(struct rule_table *table)
{
    if (table == NULL) {
        return;
    }
    for (int i = 0; i < TABLE_N_COLLECTIVES; i++) {
        free((void *)table->of[i].starts);
        free((void *)table->of[i].lists);
    }
    free((void *)table->candidates);
    free((void *)table->order);
    free(table);
}
