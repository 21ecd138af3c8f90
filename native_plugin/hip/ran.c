/* What each device was told to run: RCCL's profiler interface tells of collectives, launches of
 * kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip.h"

/* The nth collective beside the nth kernel: one may be told before or after the other. */
struct call {
    char algorithm[16], protocol[16];
    int channels;
    unsigned grid;
    const char *kernel;
};

static struct told {
    int n_collectives, n_point_to_point, n_launches, room;
    struct call *calls;
} told[HIP_MAX_DEVICES];

void rccltune_hip_forget(int device)
{
    struct told *of = &told[device];
    *of = (struct told){.room = of->room, .calls = of->calls};
}

void rccltune_hip_ran(int device, int number, struct hip_ran *ran)
{
    const struct told *of = &told[device];
    *ran = (struct hip_ran){.n_collectives = of->n_collectives,
                            .n_point_to_point = of->n_point_to_point,
                            .n_launches = of->n_launches,
                            .kernel = ""};
    if (number < of->n_collectives) {
        memcpy(ran->algorithm, of->calls[number].algorithm, sizeof ran->algorithm);
        memcpy(ran->protocol, of->calls[number].protocol, sizeof ran->protocol);
        ran->channels = of->calls[number].channels;
    }
    if (number < of->n_launches) {
        ran->grid = of->calls[number].grid;
        ran->kernel = of->calls[number].kernel;
    }
}

static struct call *call_at(struct told *of, int number)
{
    if (number == of->room) {
        int room = of->room > 0 ? 2 * of->room : 64;
        struct call *more = realloc(of->calls, (size_t)room * sizeof *more);
        if (more == NULL)
            abort(); /* what nobody knows of could not be told from what never ran */
        of->calls = more;
        of->room = room;
    }
    return &of->calls[number];
}

void hip_note_collective(int device, const char *algorithm, const char *protocol, int channels)
{
    struct told *of = &told[device];
    struct call *call = call_at(of, of->n_collectives++);
    snprintf(call->algorithm, sizeof call->algorithm, "%s", algorithm);
    snprintf(call->protocol, sizeof call->protocol, "%s", protocol);
    call->channels = channels;
}

void hip_note_point_to_point(int device)
{
    told[device].n_point_to_point++;
}

void hip_note_kernel(int device, const char *name, unsigned grid)
{
    struct told *of = &told[device];
    struct call *call = call_at(of, of->n_launches++);
    call->kernel = name;
    call->grid = grid;
}
