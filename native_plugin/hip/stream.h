/* What streams and graphs share. */
#ifndef RCCLTUNE_HIP_STREAM_H
#define RCCLTUNE_HIP_STREAM_H

#include "hip.h"

struct hip_stream {
    struct graph *graph;     /* that it is captured into, NULL where it is not */
    struct hip_stream *next; /* of the same graph */
    void *last;              /* its last node in there */
};

enum hip_work_kind { WORK_KERNEL, WORK_HOST, WORK_EVENT };

/* What can be put on a stream, and kept in a graph. */
struct hip_work {
    enum hip_work_kind kind;
    union {
        struct {
            const void *function;
            unsigned grid;
            int device;
        } kernel;
        struct hip_host_work host;
        void *event;
    };
};

void hip_do(const struct hip_work *work);

/* graph.c: do it now, or keep it where the stream is captured. */
int hip_put(void *stream, const struct hip_work *work);
bool hip_is_captured(const void *stream);
/* A capture's number, 0 outside of any. */
unsigned long long hip_capture_of(const void *stream);
void hip_leave_capture(void *stream);
/* A stream waits for what another did within a capture, up to its node `last`. */
int hip_wait_for_capture(void *stream, unsigned long long capture, void *last);

#endif
