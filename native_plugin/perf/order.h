/*
 * The order in which a call adds: which summation tree (summation_tree.h) each element of its
 * result gets, and whether the bits of random numbers are those that the trees predict.
 */
#ifndef RCCLTUNE_PERF_ORDER_H
#define RCCLTUNE_PERF_ORDER_H

#include "collective.h"
#include "rows.h"

/* Probes an all_reduce or a reduce_scatter of FLOAT or BFLOAT16, by calls or, where the step says
 * so, by replays of a captured one, and fills in the row: `checked` elements of this rank's part
 * whose tree is known, `wrong` ones of them with other bits than predicted, and on rank 0 `trees`,
 * `tree`, `signature` and `bits`.  Trees are told in remarks, `tree ID (((2+3)+1)+0)`, and on rank
 * 0 where each ends, `order LINE ID:END ID:END …`. */
void order_probe(const struct call *call, struct row *row);

/* What forbids a step's probe; NULL where nothing does. */
const char *order_refused(const struct step *step, int n_ranks);

#endif
