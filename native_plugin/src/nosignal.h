/*
 * Writing without a signal.  A write that fails may raise SIGPIPE or SIGXFSZ, which end a job that
 * did not ask for it, and one to a pipe that nobody empties waits for ever.  The job's dispositions
 * of signals, its mask and the flags of its stderr are its own, and stay as they are.
 */
#ifndef RCCLTUNE_NOSIGNAL_H
#define RCCLTUNE_NOSIGNAL_H

#include "text.h"

/* Whether a descriptor is of a regular file: not a folder, a device, a pipe or a socket. */
bool is_regular_file(int fd);

/* Writes all of `content` to a regular file.  False, with errno, on failure. */
bool nosignal_write(int fd, struct text content);

/* Writes all of `content` to stderr, whatever that is.  False where it is gone, or where nobody
 * takes it: once in a process that is waited for, and not for long. */
bool nosignal_stderr(struct text content);

#endif
