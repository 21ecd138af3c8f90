/*
 * Writing without a trap.  A write that fails may raise SIGPIPE or SIGXFSZ, which end a job that
 * did not ask for it, and one to a pipe that nobody empties waits for ever.  The job's dispositions
 * of signals, its mask and the flags of its stderr are its own, and stay as they are.
 */
#ifndef RCCLTUNE_QUIET_H
#define RCCLTUNE_QUIET_H

#include "text.h"

/* Whether a descriptor is of a regular file: not a folder, a device, a pipe or a socket. */
bool quiet_is_regular(int fd);

/* Writes all of `content` to a regular file.  False, with errno, on failure. */
bool quiet_write(int fd, struct text content);

/* Writes all of `content` to stderr, whatever that is.  False where it is gone, or where nobody
 * takes it: once in a process that is waited for, and not for long. */
bool quiet_tell(struct text content);

#endif
