/*
 * The plugin proper, free of any host's ABI: a context per communicator and a decision per call.
 */
#ifndef RCCLTUNE_PLUGIN_H
#define RCCLTUNE_PLUGIN_H

#include "rule_table.h"

struct plugin; /* the context of one communicator */

/* A communicator, as init is told of it. */
struct plugin_comm {
    unsigned abi;
    bool has_id; /* from version 5 on */
    uint64_t id;
    uint64_t n_nodes;
    uint64_t n_ranks;
    const void *host; /* an address inside the library that asks, or NULL */
};

/* A question, of which a host may ask several about one call.  `cells` is the cost table,
 * n_algorithms rows of n_protocols; a cell can be chosen when it is >= 0. */
struct plugin_call {
    int collective;
    uint64_t n_bytes;
    int n_pipe_ops;
    int reg_buff; /* whether buffers are registered; 0 where a host cannot say it */
    const float *cells;
    int n_algorithms;
    int n_protocols;
};

enum plugin_status {
    PLUGIN_READY,  /* `*plugin` may be NULL: inert, and plugin_decide accepts that */
    PLUGIN_WRONG,  /* case a of docs/plugin.md, reported on stderr */
    PLUGIN_UNSURE, /* case b, reported on stderr */
};

/* Sets a communicator up from the environment.  `*plugin` is to be ended with plugin_finalize; it
 * is NULL unless PLUGIN_READY. */
enum plugin_status plugin_init(const struct plugin_comm *comm, struct plugin **plugin);

/* The rule to apply to a call, or NULL for none: the first selectable match in file order, or what
 * a rank program says.  Reads the cost table, writes nothing of the host's; safe from any thread.
 */
const struct candidate *plugin_decide(struct plugin *plugin, const struct plugin_call *call);

/* The cell that the host would choose, the one of the lowest time that can be chosen; -1 where it
 * shows none. */
int plugin_host_cell(const struct plugin_call *call);

/* The rules of a rank program's newest communicator, answered as in a job that logs and records
 * nothing; NULL where it has none.  Not to be finalized. */
struct plugin *plugin_as_in_a_job(void);

/* Writes what is still to be written and releases everything.  NULL is allowed.  Does nothing in a
 * child of the process that began. */
void plugin_finalize(struct plugin *plugin);

#endif
