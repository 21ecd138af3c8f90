/* Work that streams and graphs share. */
#ifndef RCCLTUNE_HIP_STREAM_H
#define RCCLTUNE_HIP_STREAM_H

#include "machine.h"

struct hip_deferred;
struct hip_stream {
    struct hip_graph *graph;   /* that it is captured into, NULL where it is not */
    struct hip_stream *next;   /* of the same graph */
    void *last;                /* its last node in there */
    struct hip_stream *others; /* of this process */
    double busy_until_us;      /* on the simulated clock */
    struct waiting {           /* what is done when the stream is waited for */
        struct hip_deferred **at;
        size_t n, room;
    } waiting;
};

enum hip_work_kind { WORK_KERNEL, WORK_HOST, WORK_EVENT, WORK_COLLECTIVE, WORK_DEFERRED };

/* Something that moves data; a graph and each of its launches hold it. */
struct hip_deferred {
    void (*run)(void *data), (*release)(void *data);
    void *data;
    unsigned references;
};

/* Work that can be put on a stream, and kept in a graph. */
struct hip_work {
    enum hip_work_kind kind;
    union {
        struct {
            const void *function;
            unsigned grid;
            int device;
            struct launched *launched; /* NULL where it takes no time of a node file's */
        } kernel;
        struct hip_host_work host;
        void *event;
        struct {
            struct fabric *fabric;
            struct fabric_call call;
        } collective;
        struct hip_deferred *deferred;
    };
};

/* Do it now; `captured` where a graph's launch does it. */
int hip_do(void *stream, const struct hip_work *work, bool captured);
/* A library's kernel is told of behind its launch; it runs before anything else does. */
void hip_settle(void);
/* What a work holds, once it is kept in a graph, and when that goes. */
void hip_keep(const struct hip_work *work);
void hip_drop(const struct hip_work *work);

/* The simulated clock: the host's own, and a stream that is busy for a while. */
double hip_host_us(void);
void hip_host_pass(double us);
void hip_busy(void *stream, double us);
bool hip_is_waiting(const void *stream); /* something is deferred on it */

/* graph.c: do it now, or keep it where the stream is captured. */
int hip_put(void *stream, const struct hip_work *work);
bool hip_is_captured(const void *stream);
/* A capture's number, 0 outside of any. */
unsigned long long hip_capture_of(const void *stream);
void hip_leave_capture(void *stream);
/* A stream waits for what another did within a capture, up to its node `last`. */
int hip_wait_for_capture(void *stream, unsigned long long capture, void *last);

#endif
