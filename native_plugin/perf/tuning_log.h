/*
 * The library's own log of what it ran: its TUNING lines.  Every line costs the host time (1.5 us
 * of a call of 11 on H200), so the log is off
 * while anything is timed.
 */
#ifndef RCCLTUNE_PERF_TUNING_LOG_H
#define RCCLTUNE_PERF_TUNING_LOG_H

#include <stdbool.h>
#include <stddef.h>

/* Switches the log on, into FOLDER/log-<rank>.txt.  Before the library is opened. */
void tuning_log_start(const char *folder, int rank);

/* Switches it off again, to what the site had, where the library can: ncclResetDebugInit, which
 * NCCL and RCCL export though their headers call it deprecated.  False where it stays on. */
bool tuning_log_stop(void (*reset)(void));

/* Switches it on once more, into another file, where it is off and the library can: a later step
 * asks what ran. */
void tuning_log_resume(void (*reset)(void));

/* Skips the lines written so far. */
void tuning_log_skip(void);

/* Reads the setting that the lines since then name: `ring/simple/24`; `?` where there is none,
 * empty beyond rank 0, whose log alone has them. */
void tuning_log_read(char *setting, size_t size);

#endif
