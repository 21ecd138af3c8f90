/*
 * One collective call on this rank's buffers, and the communicator that it runs in.
 */
#ifndef RCCLTUNE_PERF_COLLECTIVE_H
#define RCCLTUNE_PERF_COLLECTIVE_H

#include "plan.h"

/* The communicator of this process; there is one at a time. */
extern struct communicator {
    int rank, n_ranks;
    int number; /* from 0; -1 before the first */
    void *comm, *stream;
    char *send, *receive; /* this communicator's buffers, `room` bytes each */
    size_t room;
} communicator;

/* A step's call, as this rank makes it. */
struct call {
    const struct step *step;
    size_t count;                  /* elements, as the library's functions take them */
    size_t send_bytes, recv_bytes; /* of this rank's buffers */
    size_t n_bytes;                /* as a tuner counts: the larger of the two */
    int mulsum;                    /* the operation made for it, -1 where there is none */
};

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

struct call call_begin(const struct step *step);
void call_end(const struct call *call);

/* Where the call with this number sends from and receives to: successive calls walk through the
 * buffers, as rccl-tests' do, so that no cache holds what is sent. */
struct places {
    char *send, *receive;
} places_of(const struct call *call, long number);

/* The root of the call with this number.  It goes down from call to call, so that the last to
 * receive is the next to send: a chain whose calls follow each other closely would show no latency.
 */
int root_of(const struct call *call, long number);

/* Puts a call on the stream; a result of the library. */
int call_issue(const struct call *call, long number);

/* Waits for all ranks: a collective of one element that nobody counts, and the stream. */
void barrier(void);

/* Sets what the plugin answers from here on; barriers are left to the library. */
void answer_set(const struct step *step);
void answer_apply(void);

/* A number for the answer in force, the same on all ranks: its lowest byte is the kind. */
uint64_t answer_code(void);

#endif
