/*
 * rccltune-perf: measures collectives as a plan says, one process a GPU (docs/measuring.md).
 *
 * main.c reads options and walks through the plan; library.c opens RCCL or NCCL with its runtime;
 * rendezvous.c connects ranks; rank_device.c selects their devices; host.c says what they and their
 * hosts are; communicator.c makes communicators; collective.c issues calls; measure.c times them,
 * by graphs of graph.c; values.c fills buffers and checks results; order.c finds the trees of
 * summation_tree.c by which elements are added; tuning_log.c reads what the library logs; rows.c
 * writes the rows.
 */
#ifndef RCCLTUNE_PERF_H
#define RCCLTUNE_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum exit_code {
    EXIT_DONE = 0,
    EXIT_USAGE = 2,   /* command line or plan */
    EXIT_LIBRARY = 3, /* library or runtime not found, or unfit */
    EXIT_DEVICES = 4, /* fewer GPUs than ranks, one twice, a slice of one */
    EXIT_MEMORY = 5,  /* of the device */
    EXIT_CALL = 6,    /* the library or the runtime failed */
    EXIT_PEER = 7,    /* another rank is gone */
    EXIT_ROWS = 8     /* rows cannot be written */
};

/* Ends this rank: words on stderr and as `# failed LINE` in its rows. */
_Noreturn void fail(enum exit_code code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Context that fail() names: the rank, the line of the plan that is under way, and the host, which
 * is "" where a launcher has not started this rank. */
extern struct context {
    int rank, line;
    char host[96];
} context;

enum collective {
    ALL_REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    BROADCAST,
    REDUCE,
    ALLTOALL,
    SENDRECV,
    N_COLLECTIVES
};

/* In the order of ncclDataType_t and ncclRedOp_t; mulsum is made at run time. */
enum type {
    INT8,
    UINT8,
    INT32,
    UINT32,
    INT64,
    UINT64,
    HALF,
    FLOAT,
    DOUBLE,
    BFLOAT16,
    FP8_E4M3,
    FP8_E5M2,
    N_TYPES
};
enum op { SUM, PROD, MAX, MIN, AVG, MULSUM, N_OPS };

extern const char *const collective_names[N_COLLECTIVES];
extern const char *const type_names[N_TYPES];
extern const char *const op_names[N_OPS];
extern const size_t type_bytes[N_TYPES];

/* Algorithms and protocols as rule files name them, by the tuner interface's numbers. */
enum { N_ALGORITHMS = 7, N_PROTOCOLS = 3 };
extern const char *const algorithm_names[N_ALGORITHMS];
extern const char *const protocol_names[N_PROTOCOLS];

/* Position of a word in a list of names, whatever its case; -1 where it is not there. */
int position_of(const char *word, size_t length, const char *const *names, int n);

#endif
