/*
 * What the library itself says that it ran: its log's TUNING lines, in a process that is there for
 * that (`--said`), since every line costs the host time.
 */
#ifndef RCCLTUNE_PERF_SAID_H
#define RCCLTUNE_PERF_SAID_H

#include <stddef.h>

/* Switches the log on, into FOLDER/log-<rank>.txt.  Before the library is opened. */
void said_start(const char *folder, int rank);

/* Passes over what was said so far. */
void said_skip(void);

/* What was said since: `ring/simple/24`; `?` where nothing was, empty without a log or beyond rank
 * 0, which alone tells. */
void said_read(char *setting, size_t size);

#endif
