/*
 * What this host and its ranks are, as `# fact NAME=VALUE` and `# variable NAME=VALUE` at the head
 * of their rows: rccltune compares what hosts say before anything is timed (measure/hosts.py).
 */
#ifndef RCCLTUNE_PERF_HOST_H
#define RCCLTUNE_PERF_HOST_H

#include "perf.h"

/* Ends the program where the folder is not that of the run with this token: another host may have a
 * folder of the same name on a disk of its own. */
void check_folder(const char *folder, const char *token);

/* Says name and boot, the driver, and of which files this rank says digests from here on: one rank
 * of a host does, where there may be several hosts. */
void tell_host(bool says_digests);

/* A fact; nothing where the value is "". */
void tell_fact(const char *name, const char *value);

/* A fact: the words, and the digest of a file.  Digests are FNV-1a of 64 bits over the file in
 * words of 8 bytes, the first byte lowest, the last one filled up with zeros, and over one more
 * word, its size in bytes. */
void tell_file(const char *name, const char *words, const char *path);

/* Says the device that this rank has, and the machine around it as sysfs shows it. */
void tell_device(int device, const char *bus);

/* Variables that libraries read, those alone that were not said yet: a library adds some from files
 * of its own. */
void tell_variables(void);

#endif
