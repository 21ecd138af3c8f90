/*
 * Which rules hold for a communicator: choose the file, read it, check it against the machine,
 * build the table.  Where a schedule is set it is read, and a rule file only where it has `rules`
 * steps.
 */
#ifndef RCCLTUNE_CONFIG_H
#define RCCLTUNE_CONFIG_H

#include "partition.h"
#include "rule_table.h"
#include "schedule.h"
#include "settings.h"
#include "sha256.h"

enum {
    CONFIG_PATH_SIZE = 4096,
    CONFIG_REASON_SIZE = 1024,
};

/* The outcomes of docs/plugin.md, "When it fails". */
enum config_outcome {
    CONFIG_RULES,   /* there is a table, or a schedule, or both */
    CONFIG_NOTHING, /* case c: nothing to apply */
    CONFIG_WRONG,   /* case a: wrong for every rank */
    CONFIG_UNSURE,  /* case b: possibly wrong on this rank alone */
};

struct config {
    struct rule_table *table;             /* with CONFIG_RULES; release with config_release */
    struct schedule *schedule;            /* the same; beside a table where it has `rules` steps */
    char schedule_path[CONFIG_PATH_SIZE]; /* "" without a schedule */
    char schedule_sha256[SHA256_TEXT_SIZE];
    char path[CONFIG_PATH_SIZE];     /* of the rule file; "" when none was chosen */
    char sha256[SHA256_TEXT_SIZE];   /* "" when none was read, or nobody logs it */
    char reason[CONFIG_REASON_SIZE]; /* why there is neither; may hold several lines */
    size_t n_rules;                  /* in the file, for any communicator */
    size_t n_warnings;
    char unmet_need[128]; /* the first `#@ needs` that the environment lacks, or "" */
    bool detected;        /* whether `machine` was looked at */
    struct machine machine;
    struct mode mode; /* the one that was used: RCCLTUNE_MODE, or as detected */
};

/* Works out the rules for a communicator of `n_nodes` and `n_ranks`. */
enum config_outcome config_load(const struct settings *settings, uint64_t n_nodes, uint64_t n_ranks,
                                struct config *config);

/* Releases the table and the schedule. */
void config_release(struct config *config);

#endif
