/*
 * RCCL's own profiler interface (version 4, which RCCL 2.27 and NCCL 2.27 ask for) tells what each
 * collective runs as it is launched: algorithm, protocol and channels, each in the library's words.
 */
#include <stdio.h>
#include <stdlib.h>

#include "launched.h"

/* One rank of a communicator: where nobody said the devices its kernels take the node file's time,
 * and its ranks meet (machine.h); else what ran is kept until somebody asks (ran.c). */
struct context {
    int device;
    struct fabric *fabric;
};

/* Faults that a library would have to play itself. */
static void check_faults(const struct node *node)
{
    for (int i = 0; i < node->n_faults; i++) {
        int kind = node->faults[i].kind;
        if (kind == FAULT_NO_PLUGIN || kind == FAULT_NO_FILE || kind == FAULT_SUBSTITUTE)
            sim_fail("the node's faults would change what the real library does");
    }
}

static int start(void **made, int *mask, const char *name, uint64_t id, int nodes, int ranks,
                 int rank, void *logger)
{
    (void)name, (void)nodes, (void)logger;
    struct context *context = calloc(1, sizeof *context);
    if (context == NULL)
        return 2; /* ncclSystemError */
    context->device = hip_current();
    if (rccltune_machine_node() != NULL) {
        char key[32];
        check_faults(rccltune_machine_node());
        snprintf(key, sizeof key, "real-%016llx", (unsigned long long)id);
        context->fabric = rccltune_fabric_prepare(ranks, rank);
        rccltune_fabric_join(context->fabric, key);
    }
    *made = context;
    *mask = EVENT_COLLECTIVE | EVENT_POINT_TO_POINT; /* groups come with either */
    return 0;
}

static int start_event(void *given, void **event, struct descriptor *descriptor)
{
    struct context *context = given;
    *event = context; /* without one the library tells nothing of what lies inside it */
    if (context->fabric != NULL) {
        if (descriptor->type == EVENT_GROUP)
            *event = launched_begin(context->fabric);
        else
            launched_tell(descriptor->parent, descriptor);
        return 0;
    }
    if (descriptor->type == EVENT_POINT_TO_POINT)
        hip_note_point_to_point(context->device);
    if (descriptor->type == EVENT_COLLECTIVE)
        hip_note_collective(context->device, descriptor->of.collective.algorithm,
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

static int finalize(void *given)
{
    struct context *context = given;
    if (context->fabric != NULL)
        rccltune_fabric_close(context->fabric, true); /* the library waits for graphs by itself */
    free(context);
    return 0;
}

const struct profiler ncclProfiler_v4 = {"rccltune", start,        start_event,
                                         stop_event, record_state, finalize};
