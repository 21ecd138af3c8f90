/*
 * Files of the system, read below an injectable root.
 *
 * Every look at /sys goes through here, so that a captured or made-up machine in a directory
 * (RCCLTUNE_SYSROOT) is as good as the real one.  The fuzzer links another implementation of this
 * header, which serves the files from memory.
 */
#ifndef RCCLTUNE_SYSROOT_H
#define RCCLTUNE_SYSROOT_H

#include "text.h"

enum read_status {
    READ_OK,
    READ_MISSING, /* no such file or directory */
    READ_DENIED,  /* there, but not for us: KFD answers so for GPUs outside the device cgroup */
    READ_FAILED,  /* anything else; a directory instead of a file, or too long, included */
};

struct sysroot {
    int fd;
};

/* Opens the directory `path` as root.  The result is to be closed with sysroot_close when READ_OK.
 */
enum read_status sysroot_open(const char *path, struct sysroot *root);

/* Closes a root. */
void sysroot_close(struct sysroot *root);

/* Reads all of `path`, relative to the root and without a leading slash, into `buffer`. */
enum read_status sysroot_read(const struct sysroot *root, const char *path, char *buffer,
                              size_t size, struct text *content);

/* Calls `visit(argument, name)` for each entry of a directory but those that begin with a dot, in
 * no particular order, until `visit` returns false. */
enum read_status sysroot_list(const struct sysroot *root, const char *path,
                              bool (*visit)(void *argument, const char *name), void *argument);

#endif
