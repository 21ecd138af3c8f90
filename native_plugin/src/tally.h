/*
 * Calls counted by (collective, nBytes), from any thread: one look into a table and one atomic
 * addition; no lock, no allocation.  The first sizes are exact, further ones per power of two.
 */
#ifndef RCCLTUNE_TALLY_H
#define RCCLTUNE_TALLY_H

#include "rule_table.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TALLY_MAX_KEYS = 65536, /* calls with further ones are counted per power of two */
    TALLY_N_LEVELS = 2,
    TALLY_COLLECTIVE_BITS = 3, /* of a key, below nBytes; 0 is a free slot */
    TALLY_CALLS_PER_LOOK = 256,
    TALLY_N_POWERS = 65, /* [0], [1], [2,3], [4,7], …, [2^63,2^64-1] */
};

_Static_assert(TABLE_N_COLLECTIVES < 1 << TALLY_COLLECTIVE_BITS, "a collective fits into a key");

struct tally_slot {
    _Atomic uint64_t key; /* nBytes << TALLY_COLLECTIVE_BITS | collective + 1 */
    _Atomic uint64_t calls;
};

/* An open-addressed table, never more than half full. */
struct tally_level {
    struct tally_slot *slots;
    unsigned bits; /* of the number of slots */
    uint32_t most; /* keys */
    _Atomic uint32_t n_keys;
};

/* Calls whose size was not kept. */
struct tally_power {
    _Atomic uint64_t calls;
    _Atomic uint64_t n_bytes; /* of all of them */
};

struct tally {
    struct tally_level levels[TALLY_N_LEVELS]; /* a key goes to the first one that has room */
    _Atomic uint64_t n_beyond;                 /* calls that are in `powers` */
    _Atomic uint64_t n_unknown;                /* calls of a collective without a name */
    struct tally_power powers[TABLE_N_COLLECTIVES][TALLY_N_POWERS];
};

/* Calls of all sizes from `least` to `most`. */
struct tally_row {
    int collective;
    uint64_t least, most, calls, n_bytes;
};

/* Makes the tables of a tally that is all zero; false when memory ran out.  Either way tally_free
 * releases what there is. */
bool tally_make(struct tally *tally);
void tally_free(struct tally *tally);

static inline uint64_t tally_key(int collective, uint64_t n_bytes)
{
    return n_bytes << TALLY_COLLECTIVE_BITS | ((uint64_t)(unsigned)collective + 1);
}

/* The place where a key belongs. */
static inline size_t tally_slot_of(const struct tally_level *level, uint64_t key)
{
    /* Golden ratio, 2^64: spreads the powers of two that message sizes mostly are. */
    return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - level->bits));
}

/* One call more of a key; true as tally_count is. */
static inline bool tally_add(struct tally_slot *slot)
{
    uint64_t before = atomic_fetch_add_explicit(&slot->calls, 1, memory_order_relaxed);
    return before % TALLY_CALLS_PER_LOOK == 0; /* also the first of each key */
}

/* The slot of a key that was counted before and is in its own place; NULL for any other.  Inline:
 * a job's few sizes are there, and a call more would cost as much again. */
static inline struct tally_slot *tally_known(struct tally *tally, int collective, uint64_t n_bytes)
{
    uint64_t key = tally_key(collective, n_bytes);
    struct tally_slot *slot = &tally->levels[0].slots[tally_slot_of(&tally->levels[0], key)];
    return (unsigned)collective < TABLE_N_COLLECTIVES && key >> TALLY_COLLECTIVE_BITS == n_bytes &&
                   atomic_load_explicit(&slot->key, memory_order_relaxed) == key
               ? slot
               : NULL;
}

/* Counts a call of any key, which may be new.  True now and then: with the first call of each key
 * that is kept and every 256th after it. */
bool tally_count(struct tally *tally, int collective, uint64_t n_bytes);

/* Number of exact keys. */
uint32_t tally_keys(const struct tally *tally);

typedef void tally_taker(const struct tally_row *row, void *context);

/* Hands over what was counted so far, row by row; returns all calls of these rows. */
uint64_t tally_read(const struct tally *tally, tally_taker *taker, void *context);

#endif
