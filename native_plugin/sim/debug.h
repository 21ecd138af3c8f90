/* NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE, and the logger that a plugin is handed. */
#ifndef RCCLTUNE_SIM_DEBUG_H
#define RCCLTUNE_SIM_DEBUG_H

#include <stdbool.h>

enum {
    SUBSYS_INIT = 0x1,
    SUBSYS_GRAPH = 0x20,
    SUBSYS_TUNING = 0x40,
    SUBSYS_ENV = 0x80,
    SUBSYS_BOOTSTRAP = 0x1000
};
enum { LEVEL_NONE, LEVEL_ERROR, LEVEL_VERSION, LEVEL_WARN, LEVEL_INFO, LEVEL_ABORT, LEVEL_TRACE };

/* Read the environment; host (%h in a file's name) and device stand before each line.  `info_level`
 * is the number of INFO in this release, which says how a plugin's own numbers are to be read (3
 * before RCCL 2.28.3, 4 since). */
void debug_start(const char *host, int device, int info_level);
void debug_restart(void); /* with the environment as it is now */
bool debug_at(int level);

void debug_info(unsigned long subsystems, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void debug_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *debug_last_error(void); /* what ncclGetLastError returns: the last warning's text */

/* ncclDebugLogger_t, in the numbering of the simulated release. */
void debug_logger(int level, unsigned long subsystems, const char *file, int line,
                  const char *format, ...);

/* Several lines at once on stdout where the log goes elsewhere too: the version block. */
void debug_version(const char *text);

#endif
