/*
 * A node file in memory.  rccltune compiles the YAML that people write (docs/node-file.md) into a
 * flat `.node` file, one record a line; this reader takes exactly that and refuses everything else,
 * so that a mistake never becomes a time.
 */
#ifndef RCCLTUNE_SIM_NODE_H
#define RCCLTUNE_SIM_NODE_H

#include "sim.h"

/* Which calls a curve, an effect or a fault speaks of.  -1 is any, except where noted. */
struct selector {
    int collective;
    int path, algorithm, protocol; /* path -1: any setting */
    int cap;                       /* channels as struct decision's cap; 0 is the node's default */
    int ranks;
    int placement;
    int variant; /* -1: always */
    int in_place;
    int dtype;
    int64_t min_bytes, max_bytes;
};

/* A function of the message size, interpolated between points on logarithmic axes. */
struct points {
    int n;
    double *log_bytes, *log_value;
};

struct curve {
    struct selector where;
    bool measured; /* by somebody, at the sizes from measured_min to measured_max */
    int64_t measured_min, measured_max;
    char source[160];
    struct points points;
};

enum { MIXED_ALWAYS, MIXED_PASS, MIXED_LAUNCH };
enum { AFTER_ANY, AFTER_LAUNCH, AFTER_PASS };
enum { SHAPE_FACTOR, SHAPE_POINTS, SHAPE_BETWEEN, SHAPE_CHANNELS };

struct channel_row {
    int channels;
    struct points points;
};

struct effect {
    struct selector where;
    int mixed; /* where another setting ran before, in this pass or in this launch; or always */
    int after; /* where `setting` ran before: in this launch, in the pass before; or always */
    int path, algorithm, protocol; /* of that one; path -1: none */
    bool first; /* where a pass begins with another setting than the one before */
    int shape;
    double factor;
    double low, high; /* SHAPE_BETWEEN: the part of each octave, 1 <= low < high <= 2 */
    struct points points;
    struct channel_row *rows; /* SHAPE_CHANNELS: ascending */
    int n_rows;
};

enum {
    FAULT_HANG,
    FAULT_CRASH,
    FAULT_WRONG,
    FAULT_SUBSTITUTE,
    FAULT_NO_PLUGIN,
    FAULT_NO_FILE,
    FAULT_DIFFERS,
    FAULT_SLOW_RANK,
    FAULT_INFO_LINES,
    FAULT_INIT_ERROR,
    FAULT_SHIFT,
    N_FAULTS
};
enum { CRASH_SEGV, CRASH_ABORT, CRASH_KILL, CRASH_EXIT, CRASH_MEMORY_FAULT, N_CRASHES };

struct fault {
    int kind;
    struct selector where;
    int rank;           /* -1 is any or all */
    double probability; /* that a launch has it at all */
    double factor;  /* slow rank: times as slow; info lines: share of rows; wrong: of elements */
    int64_t number; /* wrong: elements; crash: exit code; info lines: 1 glues them into rows; shift:
                       passes */
    int crash;
    int path, algorithm, protocol; /* substitute, differs: what runs instead */
    char message[160];             /* init error */
    bool active;                   /* in this launch; drawn once */
};

/* A variant holds where all of its conditions do. */
enum {
    WHEN_ENV,
    WHEN_SET,
    WHEN_UNSET,
    WHEN_GRAPH,
    WHEN_REGISTERED,
    WHEN_PATCH,
    WHEN_LAUNCHES,
    WHEN_THREADS,
    WHEN_GPUS,
    WHEN_BESIDE,
    WHEN_WITHOUT,
    N_WHENS
};
struct condition {
    int kind, collective, variant; /* beside which; without which */
    int launches;                  /* of a graph */
    char name[64], value[128];
};
struct variant {
    char name[48];
    struct condition *conditions;
    int n_conditions;
    bool holds;
};

struct bypass {
    int path, algorithm, protocol; /* a path alone */
    char limit[64];                /* a variable that says its largest size where it is set */
    struct selector where;
};

struct graph {
    int channels;
    double bw_intra, bw_inter, latency_inter;
    bool same_channels; /* all rings go the same way round */
};

struct drift_point {
    double seconds, factor;
};

/* Noise whose size may depend on that of the message. */
enum { SPREAD_BLOCK, SPREAD_LAUNCH, SPREAD_SETTING, N_SPREADS };

enum { MODEL_AUTO = -1 };

struct node {
    char name[48], product[64], arch[16], mode[24], host[40];
    int compute_units;
    int64_t memory_mib;
    int ranks, nodes, devices_per_oam;
    int devices_per_iod; /* 0: a device has several I/O dies, or how they lie is not known */
    char rccl[16], library[8];
    int benchmark;
    /* What the library knows of the node. */
    struct graph ring, tree;
    struct graph linked; /* channels 0: ring and tree count; else bw_intra of each pair's link */
    bool nvlink_inside, ll128_enabled, all_xgmi, intel_cpu, rome_model;
    int tuning_model, channels, channel_ceiling;
    bool library_bypasses;
    /* How it behaves. */
    double startup_s, first_use_us;
    int first_use_calls;
    double sigma, launch_sigma, rank_sigma;
    struct points spreads[N_SPREADS]; /* sigma by size instead of one number; not its logarithm */
    double outlier_rate, outlier_factor;
    double burst_probability, burst_seconds, burst_factor;
    char path_names[MAX_PATHS][24];
    int n_paths;
    struct drift_point *drift;
    struct curve *curves;
    struct effect *effects;
    struct fault *faults;
    struct variant *variants;
    struct bypass *bypasses;
    int n_drift, n_curves, n_effects, n_faults, n_variants, n_bypasses;
};

enum { PLACE_NODE, PLACE_ONE_IOD, PLACE_ONE_OAM, PLACE_ONE_PER_OAM, PLACE_OTHER, N_PLACES };
extern const char *const place_names[N_PLACES];

/* Read a whole .node text; on a mistake returns false with a message that names the line. */
bool node_parse(const char *data, size_t length, struct node *node, char *message, size_t size);
void node_free(struct node *node);
/* What records leave open that are there; NULL where nothing. */
const char *node_gap(const struct node *node);

/* Read the file named by RCCLTUNE_SIM_NODE, or end the program saying what is wrong. */
void node_load(const char *path, struct node *node);

#endif
