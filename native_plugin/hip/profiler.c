/*
 * RCCL's own profiler interface (version 4, which RCCL 2.27 and NCCL 2.27 ask for) tells what each
 * collective runs as it is launched: algorithm, protocol and channels, each in the library's words.
 */
#include <stdio.h>
#include <stdlib.h>

#include "hip.h"

enum { EVENT_COLLECTIVE = 1 << 1, EVENT_POINT_TO_POINT = 1 << 2 };

struct descriptor {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            uint64_t number;
            const char *function;
            const void *send;
            void *receive;
            size_t count;
            int root;
            const char *dtype;
            uint8_t channels, warps;
            const char *algorithm, *protocol;
        } collective;
        struct {
            const char *function;
            void *buffer;
            const char *dtype;
            size_t count;
            int peer;
            uint8_t channels;
        } point_to_point;
    } of;
};

static int start(void **context, int *mask, const char *name, uint64_t id, int nodes, int ranks,
                 int rank, void *logger)
{
    (void)name, (void)id, (void)nodes, (void)ranks, (void)rank, (void)logger;
    int *device = malloc(sizeof *device);
    if (device == NULL)
        return 2; /* ncclSystemError */
    *device = hip_current();
    *context = device;
    *mask = EVENT_COLLECTIVE | EVENT_POINT_TO_POINT;
    return 0;
}

static int start_event(void *context, void **event, struct descriptor *descriptor)
{
    int device = *(int *)context;
    *event = context; /* without one the library tells nothing of what lies inside it */
    if (descriptor->type == EVENT_POINT_TO_POINT)
        hip_note_point_to_point(device);
    if (descriptor->type == EVENT_COLLECTIVE)
        hip_note_collective(device, descriptor->of.collective.algorithm,
                            descriptor->of.collective.protocol, descriptor->of.collective.channels);
    return 0;
}

static int stop_event(void *event)
{
    (void)event;
    return 0;
}

static int record_state(void *event, int state, void *arguments)
{
    (void)event, (void)state, (void)arguments;
    return 0;
}

static int finalize(void *context)
{
    free(context);
    return 0;
}

EXPORT extern const struct profiler {
    const char *name;
    int (*start)(void **, int *, const char *, uint64_t, int, int, int, void *);
    int (*start_event)(void *, void **, struct descriptor *);
    int (*stop_event)(void *);
    int (*record_state)(void *, int, void *);
    int (*finalize)(void *);
} ncclProfiler_v4;
const struct profiler ncclProfiler_v4 = {"rccltune", start,        start_event,
                                         stop_event, record_state, finalize};
