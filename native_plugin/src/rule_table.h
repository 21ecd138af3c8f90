/*
 * The rules of one communicator, arranged so that a call finds its candidates by binary search.
 *
 * "First selectable match wins, in file order" is what the rule file means.  Sizes are cut where
 * any rule begins or ends; within one such segment the rules that match by size are the same for
 * every size, so their order is worked out once.  A later rule for the same cell, with no narrower
 * filter in front, can never be reached and is left out: a segment's list is then a handful long
 * whatever the file.  The table is immutable after rule_table_build and safe to read from any
 * thread.
 */
#ifndef RCCLTUNE_RULE_TABLE_H
#define RCCLTUNE_RULE_TABLE_H

#include "rule_file.h"

enum {
    TABLE_N_COLLECTIVES = 5,
    TABLE_MAX_KINDS = 128,          /* different (cell, numPipeOps, regBuff) of one collective */
    TABLE_MAX_CANDIDATES = 1 << 23, /* entries in all lists together: 32 MiB */
};

/* Scale of a communicator, as far as rules filter by it. */
struct scale {
    uint64_t n_nodes;
    uint64_t n_ranks;
    struct mode mode; /* may be unknown when no rule asks for it */
};

/* Answer of a rule, and what it still asks of a call. */
struct candidate {
    int32_t n_pipe_ops; /* -1: any */
    int32_t reg_buff;   /* -1: any */
    int32_t channels;   /* >= 1, or anything else for the host's default */
    int8_t algorithm;   /* LEAVE_TO_HOST: channels only */
    int8_t protocol;
    uint32_t line;
};

/* A run of sizes with the same candidates; it ends where the next one starts.  `head` is a copy of
 * the first candidate: nearly every call ends with it, and finds it without two more loads that
 * wait for each other. */
struct segment_list {
    uint32_t first; /* into rule_table.order */
    uint32_t count;
    struct candidate head; /* where count > 0 */
};

struct collective_segments {
    const uint64_t *starts; /* ascending, starts[0] == 0; NULL when there is no rule */
    const struct segment_list *lists;
    uint32_t count;
};

struct rule_table {
    struct collective_segments of[TABLE_N_COLLECTIVES];
    const struct candidate *candidates; /* the rules of this communicator, in file order */
    uint32_t n_candidates;
    const uint32_t *order; /* all lists, one after another: indices into candidates */
};

enum rule_table_status {
    RULE_TABLE_OK,
    RULE_TABLE_NO_MEMORY,
    RULE_TABLE_TOO_MANY_KINDS,      /* TABLE_MAX_KINDS exceeded */
    RULE_TABLE_TOO_MANY_CANDIDATES, /* TABLE_MAX_CANDIDATES exceeded */
};

/* Whether `rule` is for a communicator of this many nodes and ranks, whatever its mode. */
bool rule_is_for_scale(const struct rule *rule, uint64_t n_nodes, uint64_t n_ranks);

/* Whether `rule` is for this communicator, mode included. */
bool rule_is_for(const struct rule *rule, const struct scale *scale);

/* Builds the table of `scale` from `n` rules in file order.  On success `*table` is to be released
 * with rule_table_free; otherwise it is NULL. */
enum rule_table_status rule_table_build(const struct rule *rules, size_t n,
                                        const struct scale *scale, struct rule_table **table);

/* Releases a table; NULL is allowed. */
void rule_table_free(struct rule_table *table);

/* The segment that a size lies in, NULL where the collective has no rule.  `collective` must be
 * below TABLE_N_COLLECTIVES.  Inline, and without a branch that depends on the data: random sizes
 * cost what repeated ones do. */
static inline const struct segment_list *rule_table_segment(const struct rule_table *table,
                                                            unsigned collective, uint64_t n_bytes)
{
    const struct collective_segments *segments = &table->of[collective];
    uint32_t n = segments->count;
    if (n == 0) {
        return NULL;
    }
    const uint64_t *base = segments->starts;
    while (n > 1) {
        uint32_t half = n / 2;
        base += base[half] <= n_bytes ? half : 0;
        n -= half;
    }
    return &segments->lists[base - segments->starts];
}

/* The candidates for a size, in file order, as indices into table->candidates. */
static inline const uint32_t *rule_table_find(const struct rule_table *table, unsigned collective,
                                              uint64_t n_bytes, uint32_t *count)
{
    const struct segment_list *list = rule_table_segment(table, collective, n_bytes);
    *count = list != NULL ? list->count : 0;
    return list != NULL ? table->order + list->first : NULL;
}

#endif
