#ifndef RCCLTUNE_SIM_BESIDE_H
#define RCCLTUNE_SIM_BESIDE_H

#include "node.h"

/* Jobs that run on the node at the same time: each says so by a lock beside the node file. */

/* Collectives that other jobs run now, a bit each; 0 where no variant of the node asks. */
uint32_t running_beside(const struct node *node, const char *node_path);

/* Say that this collective runs, until the process ends, however it does. */
void tell_running(const struct node *node, const char *node_path, int collective);

#endif
