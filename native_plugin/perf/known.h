/*
 * What calls of this process are known already: how long one takes in this communicator, so that
 * it need not be found out again, and that its replay was compared.
 */
#ifndef RCCLTUNE_PERF_KNOWN_H
#define RCCLTUNE_PERF_KNOWN_H

#include "collective.h"

struct known {
    double each_us;    /* of a call; 0 where none was made */
    bool is_connected; /* in this communicator, whose first calls make connections */
    bool is_compared;  /* a replay of it, of rules in this communicator */
    uint64_t key;      /* of the call and the answer */
    int communicator;  /* known.c's own */
};

/* Of a call with the answer that is in force.  All ranks know the same. */
struct known *known_of(const struct call *call);

#endif
