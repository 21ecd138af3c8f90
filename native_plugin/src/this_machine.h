/*
 * What a load of a configuration asks of the machine at hand: its mode, whether a placement holds.
 * And what the stages of a load hand on, and how they end.  For config.c and the stages it calls.
 */
#ifndef RCCLTUNE_THIS_MACHINE_H
#define RCCLTUNE_THIS_MACHINE_H

#include "config.h"

struct load {
    const struct settings *settings;
    struct config *config;
    uint64_t n_nodes;
    uint64_t n_ranks;
    const void *host;      /* an address inside the library that asks us, or NULL */
    const char *placement; /* the file at hand is the directory's for this one; NULL: for any */
};

/* End of a reason where the mode is not known. */
extern const char load_mode_cure[];

/* Notes the reason and returns the outcome. */
__attribute__((format(printf, 3, 4))) enum config_outcome load_end(struct load *load,
                                                                   enum config_outcome outcome,
                                                                   const char *format, ...);

/* Looks at the machine, once. */
void load_detect_machine(struct load *load);

/* Why the mode cannot be relied on; NULL when it can.  GPUs of one node in different modes count as
 * unreliable: the ranks of one communicator would each take their own file. */
const char *load_mode_doubt(const struct load *load);

/* Whether this communicator certainly is of that placement; "" is any. */
bool load_placement_holds(struct load *load, const char *wanted);

#endif
