#include "tally.h"

#include <stdlib.h>

enum {
    NEAR_BITS = 13, /* 128 KiB of slots: what a job asks for stays in the cache */
    FAR_BITS = 17,  /* what does not fit there; pages that no key falls into cost nothing */
};

bool tally_make(struct tally *tally)
{
    static const unsigned bits[TALLY_N_LEVELS] = {NEAR_BITS, FAR_BITS};
    uint32_t left = TALLY_MAX_KEYS;
    for (int i = 0; i < TALLY_N_LEVELS; i++) {
        struct tally_level *level = &tally->levels[i];
        uint32_t half = UINT32_C(1) << (bits[i] - 1);
        level->bits = bits[i];
        level->most = half < left ? half : left;
        left -= level->most;
        level->slots = calloc((size_t)1 << bits[i], sizeof *level->slots);
        if (level->slots == NULL) {
            return false;
        }
    }
    return true;
}

void tally_free(struct tally *tally)
{
    for (int i = 0; i < TALLY_N_LEVELS; i++) {
        free(tally->levels[i].slots);
    }
}

static uint32_t n_keys(const struct tally_level *level)
{
    return atomic_load_explicit(&level->n_keys, memory_order_relaxed);
}

uint32_t tally_keys(const struct tally *tally)
{
    return n_keys(&tally->levels[0]) + n_keys(&tally->levels[1]);
}

static void count_by_power(struct tally *tally, int collective, uint64_t n_bytes)
{
    int power = n_bytes == 0 ? 0 : 64 - __builtin_clzll(n_bytes);
    struct tally_power *at = &tally->powers[collective][power];
    uint64_t before = atomic_load_explicit(&at->n_bytes, memory_order_relaxed);
    uint64_t after = 0;
    do {
        after = before > UINT64_MAX - n_bytes ? UINT64_MAX : before + n_bytes;
    } while (!atomic_compare_exchange_weak_explicit(&at->n_bytes, &before, after,
                                                    memory_order_relaxed, memory_order_relaxed));
    atomic_fetch_add_explicit(&at->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&tally->n_beyond, 1, memory_order_relaxed);
}

/* Takes a free slot for a key; true when the slot has the key afterwards. */
static bool take(struct tally_level *level, struct tally_slot *slot, uint64_t key)
{
    uint64_t found = 0;
    if (atomic_fetch_add_explicit(&level->n_keys, 1, memory_order_relaxed) >= level->most) {
        atomic_fetch_sub_explicit(&level->n_keys, 1, memory_order_relaxed);
        return false;
    }
    if (atomic_compare_exchange_strong_explicit(&slot->key, &found, key, memory_order_relaxed,
                                                memory_order_relaxed)) {
        return true;
    }
    atomic_fetch_sub_explicit(&level->n_keys, 1, memory_order_relaxed); /* another thread's */
    return found == key;
}

/* The slot of a key, which may be new; NULL where this level keeps no more. */
static struct tally_slot *find(struct tally_level *level, uint64_t key)
{
    for (size_t at = tally_slot_of(level, key);; at = (at + 1) & (((size_t)1 << level->bits) - 1)) {
        struct tally_slot *slot = &level->slots[at];
        uint64_t found = atomic_load_explicit(&slot->key, memory_order_relaxed);
        if (found == key || (found == 0 && take(level, slot, key))) {
            return slot;
        }
        if (found == 0 && n_keys(level) >= level->most) {
            return NULL;
        }
    }
}

bool tally_count(struct tally *tally, int collective, uint64_t n_bytes)
{
    uint64_t key = tally_key(collective, n_bytes);
    if ((unsigned)collective >= TABLE_N_COLLECTIVES) {
        atomic_fetch_add_explicit(&tally->n_unknown, 1, memory_order_relaxed);
        return false;
    }
    /* Sizes that lose bits in a key are no message's. */
    struct tally_slot *slot = NULL;
    for (int i = 0; i < TALLY_N_LEVELS && slot == NULL && key >> TALLY_COLLECTIVE_BITS == n_bytes;
         i++) {
        slot = find(&tally->levels[i], key);
    }
    if (slot == NULL) {
        count_by_power(tally, collective, n_bytes);
        return false;
    }
    return tally_add(slot);
}

static uint64_t multiply(uint64_t a, uint64_t b)
{
    return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static uint64_t read_level(const struct tally_level *level, tally_taker *taker, void *context)
{
    uint64_t total = 0;
    for (size_t i = 0; i < (size_t)1 << level->bits && n_keys(level) > 0; i++) {
        uint64_t key = atomic_load_explicit(&level->slots[i].key, memory_order_relaxed);
        uint64_t calls = atomic_load_explicit(&level->slots[i].calls, memory_order_relaxed);
        if (calls > 0) {
            uint64_t n_bytes = key >> TALLY_COLLECTIVE_BITS;
            int collective = (int)(key & ((1 << TALLY_COLLECTIVE_BITS) - 1)) - 1;
            taker(
                &(struct tally_row){collective, n_bytes, n_bytes, calls, multiply(n_bytes, calls)},
                context);
            total += calls;
        }
    }
    return total;
}

static uint64_t read_powers(const struct tally *tally, tally_taker *taker, void *context)
{
    uint64_t total = 0;
    for (int collective = 0; collective < TABLE_N_COLLECTIVES; collective++) {
        for (int i = 0; i < TALLY_N_POWERS; i++) {
            const struct tally_power *power = &tally->powers[collective][i];
            uint64_t calls = atomic_load_explicit(&power->calls, memory_order_relaxed);
            if (calls > 0) {
                uint64_t least = i == 0 ? 0 : UINT64_C(1) << (i - 1);
                uint64_t n_bytes = atomic_load_explicit(&power->n_bytes, memory_order_relaxed);
                taker(&(struct tally_row){collective, least, i == 0 ? 0 : least - 1 + least, calls,
                                          n_bytes},
                      context);
                total += calls;
            }
        }
    }
    return total;
}

uint64_t tally_read(const struct tally *tally, tally_taker *taker, void *context)
{
    uint64_t total = 0;
    for (int i = 0; i < TALLY_N_LEVELS; i++) {
        total += read_level(&tally->levels[i], taker, context);
    }
    return total + read_powers(tally, taker, context);
}
