/*
 * Machines as directory trees, made from the descriptions in machines/.
 *
 * A description is lines of words: `cpus N`, `no-kfd`, `pci`, `gpu at=BDF,… KEY=VALUE…`, `nvidia
 * at=BDF,… model=A_B` and `expect KEY=VALUE…`.  tests/plugin/machines.py reads the same files, so
 * that the Python tests see the same machines.
 */
#ifndef RCCLTUNE_TREE_H
#define RCCLTUNE_TREE_H

#include <stdbool.h>
#include <stddef.h>

enum { TREE_LINE = 1024 };

/* Makes a new empty directory and writes its path. */
void tree_make(char *path, size_t size);

/* Writes the machine that the file `description` describes below `root`. */
bool tree_write(const char *description, const char *root);

/* Writes one file, directories included. */
bool tree_put(const char *root, const char *path, const char *content);

/* Removes a tree. */
void tree_remove(const char *root);

/* The value of `key` in a line of words, or NULL; copied to `value`. */
const char *tree_value(const char *line, const char *key, char *value, size_t size);

#endif
