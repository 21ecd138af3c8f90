/*
 * The communicator of this process: made, warmed up, left; its buffers, and what the plugin answers
 * in it.
 */
#ifndef RCCLTUNE_PERF_COMMUNICATOR_H
#define RCCLTUNE_PERF_COMMUNICATOR_H

#include "plan.h"

/* There is one at a time. */
extern struct communicator {
    int rank, n_ranks;
    int number; /* from 0; -1 before the first */
    void *comm, *stream;
    char *send, *receive; /* this communicator's buffers, `room` bytes each */
    size_t room;
} communicator;

/* Bytes that a buffer needs whose largest step has so many. */
size_t room_for(size_t largest);

/* Makes sure that this device holds two buffers of so many bytes, or ends the program saying what
 * fits. */
void memory_check(size_t room);

/* Destroys the communicator that is there, makes the next one and its buffers; returns the
 * microseconds that making it took.  Rank 0 asks the library for the id and sends it to the others
 * (rendezvous_broadcast). */
double communicator_make(size_t room);

/* Waits for what the communicator has under way, and writes remarks: the device's clock before and
 * after it (`clock COMMUNICATOR MHZ MHZ`), and where rules answered what a question costs a job
 * (`cost NS`). */
void communicator_leave(void);

/* Lets the buffers be what the step asks for: registered by the library, or plain. */
void communicator_take_buffers(const struct step *step);

/* Waits for all ranks: a collective of one element that nobody counts, and the stream. */
void barrier(void);

/* Sets what the plugin answers from here on; barriers are left to the library. */
void answer_set(const struct step *step);
void answer_apply(void);

/* A number for the answer in force, the same on all ranks: its lowest byte is the kind. */
uint64_t answer_code(void);

#endif
