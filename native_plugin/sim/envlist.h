/* NCCL_ALGO and NCCL_PROTO: which words they list for which collective. */
#ifndef RCCLTUNE_SIM_ENVLIST_H
#define RCCLTUNE_SIM_ENVLIST_H

#include "sim.h"

/* `masks[c]` gets a bit per word of `names` that is allowed for collective c.  An unset variable
 * allows everything.  `per_function` is the grammar of 2.24 and later,
 *     [list][;func:list]...    list = words with commas, a leading ^ excludes
 * where an unknown word or function is an error (NCCL_INVALID_USAGE, with a warning); the older one
 * is a plain list that ignores unknown words. */
int envlist_read(const char *text, bool per_function, const char *const *names, int n,
                 uint8_t masks[N_TUNABLE]);

#endif
