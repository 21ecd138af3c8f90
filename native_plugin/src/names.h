/*
 * The names of collectives, algorithms and protocols, and the numbers behind them: the only place.
 *
 * Numbers are the hosts' (NCCL 2.30.7 and RCCL 2.28.3, nccl_common / tuner headers).  A call
 * carries the size of its own table, so a name whose number lies outside is just not selectable
 * there.
 */
#ifndef RCCLTUNE_NAMES_H
#define RCCLTUNE_NAMES_H

#include "text.h"

enum {
    ALGORITHM_TREE = 0,
    ALGORITHM_RING = 1,
    PROTOCOL_LL = 0,
    PROTOCOL_LL128 = 1,
    PROTOCOL_SIMPLE = 2,
    N_KNOWN_ALGORITHMS = 7,
    N_KNOWN_PROTOCOLS = 3,
    LEAVE_TO_HOST = -1, /* "-1" in a rule: the host chooses */
};

/* The number of a collective that asks a tuner (0..4), or -1. */
int collective_number(struct text name);

/* Whether `name` is a collective that never asks a tuner (alltoall, send, …): a rule for it is
 * harmless and has no effect. */
bool collective_is_untunable(struct text name);

/* The number of an algorithm (0..6) or LEAVE_TO_HOST for "-1"; false for an unknown name. */
bool algorithm_number(struct text name, int *number);

/* The number of a protocol (0..2) or LEAVE_TO_HOST for "-1"; false for an unknown name. */
bool protocol_number(struct text name, int *number);

/* The name of a number; "?" outside the known ones. */
const char *collective_name(int number);

/* The name of a number; "-1" for LEAVE_TO_HOST, "?" outside the known ones. */
const char *algorithm_name(int number);

/* The name of a number; "-1" for LEAVE_TO_HOST, "?" outside the known ones. */
const char *protocol_name(int number);

#endif
