/*
 * A spin lock: libc's mutexes are in another library before glibc 2.34, calls of one communicator
 * come one at a time, and what it guards is short.  Never taken where nobody watches, but for the
 * snapshots of a record.
 *
 * A lock holds the id of the process that took it.  A child that was forked while another thread
 * held one would wait for a thread that it does not have; it takes the lock over instead.  What a
 * lock guards here is whole at every moment: links are set with one store.
 */
#ifndef RCCLTUNE_LOCK_H
#define RCCLTUNE_LOCK_H

#include "process.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef _Atomic pid_t lock_holder; /* 0: nobody */

/* Turns, of 1 ns each or less, that the end of a process waits for a lock: some milliseconds. */
enum { PATIENCE = 1 << 23, TURNS_IN_A_ROW = 1 << 10 };

/* Takes a lock within so many turns; false where another thread kept it. */
static inline bool lock_within(lock_holder *holder, long turns)
{
    pid_t me = process_id();
    for (; turns > 0; turns--) {
        /* Who waits only reads, so that who unlocks is not held up; what another process holds is
         * taken over. */
        pid_t found = atomic_load_explicit(holder, memory_order_relaxed);
        if (found != me && atomic_compare_exchange_strong_explicit(
                               holder, &found, me, memory_order_acquire, memory_order_relaxed)) {
            return true;
        }
        if (turns % TURNS_IN_A_ROW == 0) {
            (void)sched_yield(); /* the holder may wait for this core */
        }
    }
    return false;
}

static inline void lock(lock_holder *holder)
{
    while (!lock_within(holder, PATIENCE)) {
    }
}

static inline void unlock(lock_holder *holder)
{
    atomic_store_explicit(holder, 0, memory_order_release);
}

#endif
