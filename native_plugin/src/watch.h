/*
 * The watcher of one communicator: counters and the log.
 *
 * It exists only where RCCLTUNE_LOG asks for it; without it a call touches nothing but the table.
 * A lock guards it, since nothing forbids a host to ask from two threads.
 */
#ifndef RCCLTUNE_WATCH_H
#define RCCLTUNE_WATCH_H

#include "config.h"
#include "output.h"
#include "plugin.h"

struct watch;

/* Starts watching, and says which rules are in force.  `*watch` is NULL when nothing was asked for.
 * `reason` is filled when the log's name is none or memory ran out. */
enum output_start watch_start(const struct settings *settings, const struct config *config,
                              const struct output_comm *comm, struct watch **watch, char *reason,
                              size_t size);

/* Notes one call, before its cost table is touched.  `chosen` is the rule of the table that answers
 * it, or NULL; `n_skipped` how many matching rules were passed over as not selectable, `n_unheld`
 * how many ask for another numPipeOps or regBuff. */
void watch_call(struct watch *watch, const struct plugin_call *call, const struct candidate *chosen,
                uint32_t n_skipped, uint32_t n_unheld);

/* Writes the summary and ends watching.  NULL is allowed. */
void watch_end(struct watch *watch);

#endif
