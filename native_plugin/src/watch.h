/*
 * The watcher of one communicator: counters, the log and the trace.
 *
 * It exists only where RCCLTUNE_LOG or RCCLTUNE_TRACE asks for it; without it a call touches
 * nothing but the table.  A lock guards it, since nothing forbids a host to ask from two threads.
 */
#ifndef RCCLTUNE_WATCH_H
#define RCCLTUNE_WATCH_H

#include "config.h"
#include "trace.h"

struct watch;

/* The place of an answer that is no rule of the table's. */
#define WATCH_NO_RULE UINT32_MAX

/* Starts watching, and says which rules are in force.  `*watch` is NULL when nothing was asked for.
 * `reason` is filled when the trace file cannot be written or memory ran out. */
enum output_start watch_start(const struct settings *settings, const struct config *config,
                              const struct trace_comm *comm, struct watch **watch, char *reason,
                              size_t size);

/* Ends the step of a schedule that was in force, and begins another: the records of the one are
 * written with the announcement of the other, so that a launch that dies has named its setting.
 * `step` is its number, `begun` the step itself, NULL where all steps are over. */
void watch_step(struct watch *watch, uint32_t step, const struct schedule_step *begun);

/* Notes one call.  `call` is complete but for the answer, `chosen` is that or NULL, `index` its
 * place in the table or WATCH_NO_RULE, `n_skipped` how many matching rules were passed over as not
 * selectable. */
void watch_call(struct watch *watch, struct trace_call *call, const struct candidate *chosen,
                uint32_t index, uint32_t n_skipped);

/* Writes the trace and the summary, and ends watching.  NULL is allowed. */
void watch_end(struct watch *watch);

#endif
