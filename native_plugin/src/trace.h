/*
 * What the host asked and what it was told, one record per (collective, nBytes) of a step.
 *
 * The records serve the trace file (RCCLTUNE_TRACE) and the log of decisions, and exist only where
 * one of them is asked for.  A *step* is the time during which one setting was in force; without a
 * schedule there is one step, 0.
 */
#ifndef RCCLTUNE_TRACE_H
#define RCCLTUNE_TRACE_H

#include "output.h"
#include "rule_table.h"

enum {
    TRACE_MAX_CELLS = 32,      /* 8 algorithms of 4 protocols */
    TRACE_MAX_RECORDS = 65536, /* per communicator and step; further keys are counted as dropped */
};

/* The first lines of a trace file. */
extern const char trace_header[];

/* One call, seen before the cost table was touched. */
struct trace_call {
    uint64_t n_bytes;
    uint64_t selectable;          /* bit a*n_protocols+p: the cell could be chosen */
    float times[TRACE_MAX_CELLS]; /* the host's own, µs; meaningful where selectable */
    int32_t n_protocols;
    int16_t host_choice; /* cell of the lowest time, or -1 */
    int8_t collective;
    bool has_answer;
    struct candidate answer;
};

struct trace_record {
    struct trace_call first; /* the first call with this key */
    uint64_t calls;
    uint64_t changed; /* calls whose selectable cells or answer differ from the first one's */
};

struct trace {
    struct trace_record *records;
    uint32_t n_records;
    uint32_t records_room;
    uint32_t *slots; /* open addressing, index + 1, 0 is free */
    uint32_t n_slots;
    uint64_t dropped;
};

/* What stands in front of every record of a communicator. */
struct trace_comm {
    const char *id;
    uint64_t n_nodes;
    uint64_t n_ranks;
    unsigned abi;
    unsigned context; /* this process's contexts are counted from 0: ranks of one process differ */
};

/* Reads a cost table into `call`: cells of `n_algorithms` x `n_protocols`, NULL where there is
 * none. */
void trace_read_table(struct trace_call *call, const float *cells, int n_algorithms,
                      int n_protocols);

/* Counts a call.  Returns the record when its key is new, else NULL.  The record is valid until the
 * next call. */
const struct trace_record *trace_count(struct trace *trace, const struct trace_call *call);

/* Appends the records of `step` as CSV.  `setting` is the setting in force. */
void trace_write(const struct trace *trace, const struct trace_comm *comm, unsigned step,
                 const char *setting, struct lines *lines);

/* Writes an answer as `tree/ll128`, `tree/ll128/16`, `-1/-1/16`, or `none`. */
void trace_add_answer(struct lines *lines, const struct trace_call *call);

/* Writes a setting in the same words. */
void trace_add_setting(struct lines *lines, const struct candidate *setting);

/* Writes a cell as `ring/simple`; `-` for -1. */
void trace_add_cell(struct lines *lines, int cell, int n_protocols);

/* Forgets the records and keeps their memory for the next step's. */
void trace_clear(struct trace *trace);

/* Releases the records. */
void trace_free(struct trace *trace);

#endif
