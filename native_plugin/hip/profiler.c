/*
 * RCCL's own profiler interface (version 4, which RCCL 2.27 and NCCL 2.27 ask for) tells what each
 * collective runs as it is launched: algorithm, protocol and channels, each in the library's words.
 */
#include <stdio.h>
#include <stdlib.h>

#include "interfaces.h"

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

const struct profiler ncclProfiler_v4 = {"rccltune", start,        start_event,
                                         stop_event, record_state, finalize};
