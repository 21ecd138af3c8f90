/*
 * A spin lock: libc's mutexes are in another library before glibc 2.34, calls of one communicator
 * come one at a time, and what it guards is short.  Never taken where nobody watches and no
 * schedule is set, but for the snapshots of a record.
 */
#ifndef RCCLTUNE_LOCK_H
#define RCCLTUNE_LOCK_H

#include <stdatomic.h>

static inline void lock(atomic_flag *busy)
{
    while (atomic_flag_test_and_set_explicit(busy, memory_order_acquire)) {
    }
}

static inline void unlock(atomic_flag *busy)
{
    atomic_flag_clear_explicit(busy, memory_order_release);
}

#endif
