/*
 * What the library itself says that it ran: its log's TUNING lines.  Every line costs the host time
 * (1.5 us of a call of 11 on H200), so the log ends before the first measurement.
 */
#ifndef RCCLTUNE_PERF_SAID_H
#define RCCLTUNE_PERF_SAID_H

#include <stdbool.h>
#include <stddef.h>

/* Switches the log on, into FOLDER/log-<rank>.txt.  Before the library is opened. */
void said_start(const char *folder, int rank);

/* Switches it off again, to what the site had, where the library can: ncclResetDebugInit, which
 * NCCL and RCCL export though their headers call it deprecated.  False where it stays on. */
bool said_stop(void (*reset)(void));

/* Passes over what was said so far. */
void said_skip(void);

/* What was said since: `ring/simple/24`; `?` where nothing was, empty while there is no log or
 * beyond rank 0, which alone tells. */
void said_read(char *setting, size_t size);

#endif
