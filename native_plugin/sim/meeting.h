/*
 * Meeting of processes: memory that they share, a barrier in it, and a slot for each rank.
 *
 * Nothing is left behind however the processes end.  Without a folder the place has no name in the
 * file system at all: who binds a name among the sockets of this host made it, and the others open
 * its memory through /proc.  In a folder (hosts that are namespaces of one kernel share nothing
 * else) the first process makes a file, the last to arrive takes its name away, and locks that the
 * kernel drops tell a dead launch's file from a living one's.  Waiting is a futex: 64 processes on
 * two cores cost nothing while they wait, and a process that dies leaves the others asleep.
 */
#ifndef RCCLTUNE_SIM_MEETING_H
#define RCCLTUNE_SIM_MEETING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct place;
struct meeting {
    struct place *place; /* NULL where one process is alone and needs none */
    char *alone;         /* its slots then */
    size_t bytes, slot_bytes;
    uint32_t n_slots, phase;
    int file, socket; /* open until all have come; -1 */
};

/* Come to the place that `key` names, with n - 1 other processes; in a folder where one is given.
 * `slot_bytes` and `n_slots` are the same for all. */
void meeting_open(struct meeting *meeting, const char *folder, const char *key, uint32_t n,
                  size_t slot_bytes, uint32_t n_slots);
void meeting_close(struct meeting *meeting);

/* The slot of a rank for what is under way; written before meeting_wait(), read by all after it,
 * until meeting_turn() opens the next: two halves in turn, so that nobody can write into what is
 * still being read. */
void *meeting_slot(const struct meeting *meeting, int rank);
/* Barrier.  For ever if a process is gone, as the library would; false when `timeout_s`, unless it
 * is 0, has gone by. */
bool meeting_wait(struct meeting *meeting, double timeout_s);
void meeting_turn(struct meeting *meeting);

/* Sleep until somebody ends this process (or its longest life is over). */
_Noreturn void wait_for_ever(void);

/* Take, give back or (F_OFD_GETLK) only ask for the lock of a byte of a file; false where another
 * open file has it. */
bool lock_byte(int file, int command, short type, int byte);

/* RCCLTUNE_SIM_SHM_DIR, or NULL. */
const char *meeting_folder(void);

#endif
