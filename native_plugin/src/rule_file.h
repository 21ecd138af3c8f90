/*
 * Reading a rule file: text in, rules and findings out.  No file system, no machine, no host.
 *
 * A row is
 * `colltype,minbytes,maxbytes,algorithm,protocol,channels,nNodes,nRanks[,numPipeOps[,regBuff
 * [,partitionMode[,localGroup]]]]`.  The first ten columns are those that RCCL's built-in tuner and
 * the vendors' example plugins read (RCCL 2.28.3+ src/plugin/tuner/csv_tuner.cc, NCCL 2.30.7
 * plugins/tuner/example); columns 11 and 12 exist in a fork.  `#@` lines are ours and comments to
 * everyone else: `#@ format 1`, `#@ requires KEY=VALUE…`, `#@ library NCCL 2.28.9`,
 * `#@ bits NAME`, `#@ needs NAME=VALUE`, `#@ end N`.
 *
 * `#@ format` begins a file of rccltune's and `#@ end N` ends it, with N rows between, taken or
 * not: one that was cut, or is being written, has not both and is refused.  A file that says
 * neither is held to nothing.
 *
 * An *error* is a mistake that would choose wrongly: the file is refused.  A *warning* is a row
 * that can be left out without changing what the others mean.
 */
#ifndef RCCLTUNE_RULE_FILE_H
#define RCCLTUNE_RULE_FILE_H

#include "library.h"
#include "mode.h"
#include "product.h"

enum {
    RULE_FILE_MAX_BYTES = 64 << 20,
    RULE_FILE_MAX_RULES = 1 << 20,
    RULE_FILE_MAX_FINDINGS = 200, /* kept; all are counted */
    RULE_FILE_MAX_NEEDS = 32,
};

/* One row.  -1 means "any" in the four columns that filter, "leave to the host" in the three that
 * choose. */
struct rule {
    uint64_t min_bytes; /* inclusive */
    uint64_t max_bytes; /* inclusive */
    int32_t channels;
    int32_t n_nodes;
    int32_t n_ranks;
    int32_t n_pipe_ops;
    int32_t reg_buff;
    uint32_t line;
    int8_t collective;
    int8_t algorithm;
    int8_t protocol;
    struct mode only_mode; /* column 11; COMPUTE_UNKNOWN: any, memory 0: any */
};

enum finding_severity { FINDING_WARNING, FINDING_ERROR };

/* Something to say about a line.  `code` is for programs and never changes; `message` for people.
 */
struct finding {
    enum finding_severity severity;
    uint32_t line; /* from 1; 0 for the file as a whole */
    const char *code;
    char message[224];
};

/* Requirements of `#@ requires`.  Zero or "" where a key is not given. */
struct requirement {
    uint32_t line; /* of the last `#@ requires`; 0 when there is none */
    char arch[16];
    char placement[24];
    char product[PRODUCT_SIZE]; /* as product_name writes it */
    uint32_t device;
    uint32_t n_cus;
    struct mode mode;
};

/* One `#@ needs NAME=VALUE`, pointing into the text that was parsed. */
struct environment_need {
    struct text name;
    struct text value;
};

struct rule_file {
    struct rule *rules; /* in file order */
    size_t n_rules;
    size_t rules_room;
    struct finding *findings; /* in file order, the first RULE_FILE_MAX_FINDINGS */
    size_t n_findings;
    size_t findings_room;
    size_t n_errors;
    size_t n_warnings;
    struct requirement requirement;
    struct library library; /* of `#@ library`; LIBRARY_UNKNOWN where there is none */
    char bits[64];          /* of `#@ bits`: rules that keep the bits of results; or "" */
    struct environment_need needs[RULE_FILE_MAX_NEEDS];
    size_t n_needs;
};

/* Parses `content`, which must outlive `file` (needs point into it).  False only when memory ran
 * out; mistakes are findings.  `file` is initialised here and released by rule_file_free in either
 * case. */
bool rule_file_parse(struct text content, struct rule_file *file);

/* Whether the file may be used: no error, and no warning either where `strict`. */
bool rule_file_is_usable(const struct rule_file *file, bool strict);

/* Releases what rule_file_parse took. */
void rule_file_free(struct rule_file *file);

#endif
