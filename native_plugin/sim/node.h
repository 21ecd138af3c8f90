/*
 * A node file in memory.  rccltune compiles the YAML that people write (docs/simulated-nodes.md)
 * into a flat `.node` file, one record a line; this reader takes exactly that and refuses
 * everything else, so that a mistake never becomes a time.
 */
#ifndef RCCLTUNE_SIM_NODE_H
#define RCCLTUNE_SIM_NODE_H

#include "sim.h"

/* Selection of calls by a curve, an effect or a fault.  -1 is any, except where noted. */
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

/* A function with straight lines between its points, x ascending.  Of times and factors over the
 * message size both are logarithms; of sigmas y is none, of the drift over seconds neither is. */
struct points {
    int n;
    struct point {
        double x, y;
    } * at;
};

struct curve {
    struct selector where;
    int measured; /* 1: by somebody, at the sizes from measured_min to measured_max */
    int64_t measured_min, measured_max;
    char source[160];
    struct points points;
};

enum { MIXED_ALWAYS, MIXED_PASS, MIXED_LAUNCH };
enum { AFTER_ANY, AFTER_LAUNCH, AFTER_PASS };

struct channel_row {
    int channels;
    struct points points;
};

struct effect {
    struct selector where;
    int mixed; /* where another setting ran before, in this pass or in this launch; or always */
    int after; /* where `setting` ran before: in this launch, in the pass before; or always */
    int path, algorithm, protocol; /* of that one; path -1: none */
    int first; /* 1: where a pass begins with another setting than the one before */
    /* The factor by size; where there are none, that by channels and size; else one alone, in a
     * part of each octave: all of it from 1 to 2. */
    struct points points;
    struct channel_row *rows; /* ascending */
    int n_rows;
    double low, high, factor;
};

enum {
    FAULT_HANG,
    FAULT_CRASH,
    FAULT_WRONG,
    FAULT_WRONG_REPLAY, /* of a graph */
    FAULT_SUBSTITUTE,
    FAULT_NO_PLUGIN,
    FAULT_NO_FILE,
    FAULT_SLOW_RANK,
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
    double factor;      /* slow rank: times as slow; wrong, wrong replay: share of elements */
    int64_t number;     /* wrong: elements; crash: exit code; shift: passes */
    int crash;
    int path, algorithm, protocol; /* substitute: what runs instead */
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
    WHEN_WITHOUT,
    N_WHENS
};
struct condition {
    int kind, variant; /* without which */
    int launches;      /* of a graph */
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
    int chunks;                    /* elements, of a multiple of which alone calls are taken */
    int min_channels;              /* of a communicator of that many ranks, where it holds */
    struct selector where;
};

/* Ranks of a host in the order of a channel's ring, "0,2,4"; the others follow. */
struct ring_order {
    char ranks[1024];
};

struct graph {
    int channels;
    double bw_intra, bw_inter, latency_inter;
    bool same_channels; /* all rings go the same way round */
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
    int nvlink_inside, ll128_enabled, all_xgmi, intel_cpu, rome_model; /* 0 or 1 */
    int tuning_model, channels, channel_ceiling;
    int library_bypasses;
    int overwrites; /* whether this build sets protocols after a tuner; -1: as its release does */
    /* How it behaves. */
    double startup_s, first_use_us;
    int first_use_calls;
    struct points spreads[N_SPREADS]; /* sigma by size */
    double rank_sigma;
    double outlier_rate, outlier_factor;
    double burst_probability, burst_seconds, burst_factor;
    struct points drift;
    struct path {
        char name[24];
    } * paths;
    struct curve *curves;
    struct effect *effects;
    struct fault *faults;
    struct variant *variants;
    struct bypass *bypasses;
    struct ring_order *orders; /* of the channels, again from the first behind the last */
    int n_paths, n_curves, n_effects, n_faults, n_variants, n_bypasses, n_orders;
};

enum { PLACE_NODE, PLACE_ONE_IOD, PLACE_ONE_OAM, PLACE_ONE_PER_OAM, PLACE_OTHER, N_PLACES };
extern const char *const place_names[N_PLACES];

/* Read a whole .node text; on a mistake returns false with a message that names the line. */
bool node_parse(const char *data, size_t length, struct node *node, char *message, size_t size);
void node_free(struct node *node);

/* tree/ll, or the name of a path; good until the next question. */
const char *setting_name(const struct node *node, int path, int algorithm, int protocol);
static inline const char *decision_name(const struct node *node, const struct decision *decision)
{
    return setting_name(node, decision->path, decision->algorithm, decision->protocol);
}

/* Read the file named by RCCLTUNE_SIM_NODE, or end the program saying what is wrong. */
void node_load(const char *path, struct node *node);

/* The release that is played, 22803 of 2.28.3: RCCLTUNE_SIM_RELEASE or the node file's; ends the
 * program where it is none. */
int node_release(const struct node *node);

/*
 * Truth of the simulated node (curves, effects) and what a benchmark sees of it (noise,
 * bursts, drift).  scripts/true_times.py computes the same truth independently; tests
 * compare the two.
 */
struct situation {
    int collective;
    struct decision what;
    int ranks, placement, in_place, dtype;
    size_t n_bytes;
    /* What ran before. */
    bool mixed, mixed_launch;                /* another setting: in this pass, in this launch */
    uint64_t ran_before, ran_in_pass_before; /* in this launch, in the pass before: setting_bit */
    bool first_after_switch; /* first size of a pass, and another setting ran there in the last */
};

bool selector_fits(const struct node *node, const struct selector *where,
                   const struct situation *s);

/* The next fault of a kind that this launch has and that strikes here, behind another or from the
 * first on; NULL where there is none.  Without a situation whatever it selects. */
const struct fault *next_fault(const struct node *node, const struct fault *behind, int kind,
                               const struct situation *s);

/* Noise-free microseconds of one call; negative where the node file says nothing about it. */
double true_time(const struct node *node, const struct situation *s);

/* Request to the benchmark, as far as variants know it. */
struct manner {
    int graph;         /* launches of a captured graph; 0 without one */
    bool registered;   /* buffers really are, by the program or for a graph */
    int threads, gpus; /* of a process, of a thread */
};

/* Whether the played library has a patch of this name (RCCLTUNE_SIM_PATCHES). */
bool is_patched(const char *patch);

/* Decide which variants hold, from the environment and from what the benchmark was asked. */
void settle_variants(struct node *node, const struct manner *manner);

/* What is drawn is a function of its keys alone: the same on every machine, in every process, in
 * any order. */
uint64_t keys_of(uint64_t seed);
uint64_t keys_with(uint64_t keys, uint64_t value);
uint64_t keys_with_text(uint64_t keys, const char *text);

struct noise {
    uint64_t seed;
    const char *launch;
    bool quiet; /* of a replayed graph */
};

/* Factor on the time of one timed block: its own noise, the launch's, the setting's in it,
 * outliers, and what the simulated clock (seconds since the sweep began) says about bursts and
 * drift. */
double block_factor(const struct node *node, const struct noise *noise, const struct situation *s,
                    uint64_t cycle, double clock);
/* A rank's own, on the same block: what its draws have in common, and one of them. */
uint64_t rank_keys(const struct noise *noise, const struct situation *s, uint64_t cycle);
double rank_factor(const struct node *node, const struct noise *noise, uint64_t keys, int rank);

/* Draw which faults this launch has. */
void settle_faults(struct node *node, const struct noise *noise);
/* End the process as a fault says. */
_Noreturn void crash_now(const struct fault *fault);

#endif
