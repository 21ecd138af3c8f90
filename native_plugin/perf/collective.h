/*
 * One collective call on this rank's buffers.
 */
#ifndef RCCLTUNE_PERF_COLLECTIVE_H
#define RCCLTUNE_PERF_COLLECTIVE_H

#include "communicator.h"

/* A step's call, as this rank makes it. */
struct call {
    const struct step *step;
    size_t count;                  /* elements, as the library's functions take them */
    size_t send_bytes, recv_bytes; /* of this rank's buffers */
    size_t n_bytes;                /* as a tuner counts: the larger of the two */
    int mulsum;                    /* the operation made for it, -1 where there is none */
};

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

#endif
