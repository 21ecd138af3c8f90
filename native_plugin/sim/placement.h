#ifndef RCCLTUNE_SIM_PLACEMENT_H
#define RCCLTUNE_SIM_PLACEMENT_H

#include "node.h"

/* The narrowest place (PLACE_*) that holds n devices of a node. */
int placement_of(const struct node *node, const int *devices, int n);

#endif
