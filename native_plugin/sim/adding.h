/* The order in which a collective adds the ranks' numbers, as the published kernels do. */
#ifndef RCCLTUNE_SIM_ADDING_H
#define RCCLTUNE_SIM_ADDING_H

#include "rccl.h"

struct addition {
    int into, from; /* ranks at which the sums stand */
};

/* A sum in progress: which call, and how many elements its whole result has. */
struct adding {
    const struct comm *comm;
    struct decision what;
    int collective, root;
    size_t count, width; /* elements of the whole result, bytes of one */
};

/* n_ranks - 1 additions of an element, and the first element behind that is added otherwise; 0
 * where nothing is known of the order (NVLS and paths that ask no tuner add in one step). */
size_t order_at(const struct adding *adding, size_t element, struct addition *additions);

#endif
