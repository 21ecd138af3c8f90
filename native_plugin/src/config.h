/*
 * Rules that hold for a communicator: choose the file, read it, check it against the machine,
 * build the table.
 */
#ifndef RCCLTUNE_CONFIG_H
#define RCCLTUNE_CONFIG_H

#include "library.h"
#include "partition.h"
#include "rule_table.h"
#include "settings.h"
#include "sha256.h"

enum {
    CONFIG_PATH_SIZE = 4096,
    CONFIG_REASON_SIZE = 1024,
};

/* The outcomes of docs/plugin.md, "When it fails". */
enum config_outcome {
    CONFIG_RULES,   /* there is a table */
    CONFIG_NOTHING, /* case c: nothing to apply */
    CONFIG_WRONG,   /* case a: wrong for every rank */
    CONFIG_UNSURE,  /* case b: possibly wrong on this rank alone */
};

struct config {
    struct rule_table *table;        /* with CONFIG_RULES; release with config_release */
    char path[CONFIG_PATH_SIZE];     /* of the rule file; "" when none was chosen */
    char sha256[SHA256_TEXT_SIZE];   /* "" when none was read, or nobody logs it */
    char reason[CONFIG_REASON_SIZE]; /* why there is none; may hold several lines */
    size_t n_rules;                  /* in the file, for any communicator */
    size_t n_warnings;
    char unmet_need[128];          /* the first `#@ needs` that the environment lacks, or "" */
    bool keeps_bits;               /* `#@ bits` */
    struct library wanted_library; /* of `#@ library`; unknown where there is none */
    struct library library; /* that asks us; unknown too where the file has no condition on it */
    bool product_unchecked; /* `#@ requires product` could not be held against the machine */
    bool detected;          /* whether `machine` was looked at */
    struct machine machine;
    struct mode mode; /* the one that was used: RCCLTUNE_MODE, or as detected */
};

/* Works out the rules for a communicator of `n_nodes` and `n_ranks`.  `host` is an address inside
 * the library that asks us, or NULL. */
enum config_outcome config_load(const struct settings *settings, uint64_t n_nodes, uint64_t n_ranks,
                                const void *host, struct config *config);

/* Whether the library that asks us is another one than the rules were measured with. */
bool config_is_of_another_library(const struct config *config);

/* Releases the table. */
void config_release(struct config *config);

#endif
