/*
 * Streams, events and kernels.  Everything that is put on a stream is over at once: a kernel is
 * noted (which, how many blocks) and takes no time of its own, because the simulated benchmark
 * takes a collective's time from its node file.  The clock of events counts launches, so that it
 * never stands still between two of them.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "hip.h"
#include "stream.h"

static atomic_long clock_us;

struct event {
    long us;
    /* Of the stream that it was last recorded in, while that was captured. */
    unsigned long long capture;
    void *last;
};

EXPORT int hipStreamCreateWithFlags(void **stream, unsigned flags)
{
    (void)flags;
    *stream = calloc(1, sizeof(struct hip_stream));
    return *stream != NULL ? HIP_OK : hip_fail(HIP_OUT_OF_MEMORY);
}

EXPORT int hipStreamDestroy(void *stream)
{
    hip_leave_capture(stream);
    free(stream);
    return HIP_OK;
}

EXPORT int hipStreamSynchronize(void *stream)
{
    return hip_is_captured(stream) ? hip_fail(HIP_CAPTURE_UNSUPPORTED) : HIP_OK;
}

EXPORT int hipDeviceSynchronize(void)
{
    return HIP_OK;
}

EXPORT int hipStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    const struct event *awaited = event;
    (void)flags;
    if (awaited->capture != 0)
        return hip_wait_for_capture(stream, awaited->capture, awaited->last);
    return HIP_OK; /* in a graph too: what was recorded outside of it is over when that is launched
                    */
}

EXPORT int hipEventCreateWithFlags(void **event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof(struct event));
    return *event != NULL ? HIP_OK : hip_fail(HIP_OUT_OF_MEMORY);
}

EXPORT int hipEventCreate(void **event)
{
    return hipEventCreateWithFlags(event, 0);
}

EXPORT int hipEventDestroy(void *event)
{
    free(event);
    return HIP_OK;
}

EXPORT int hipEventRecord(void *event, void *stream)
{
    struct event *recorded = event;
    recorded->us = atomic_load(&clock_us);
    recorded->capture = hip_capture_of(stream);
    recorded->last = recorded->capture != 0 ? ((struct hip_stream *)stream)->last : NULL;
    return HIP_OK;
}

EXPORT int hipEventQuery(void *event)
{
    return ((struct event *)event)->capture == 0 ? HIP_OK : hip_fail(HIP_CAPTURED_EVENT);
}

EXPORT int hipEventSynchronize(void *event)
{
    return hipEventQuery(event);
}

EXPORT int hipEventElapsedTime(float *ms, void *from, void *to)
{
    *ms = (float)(((struct event *)to)->us - ((struct event *)from)->us) / 1000.f;
    return HIP_OK;
}

EXPORT int hipLaunchHostFunc(void *stream, void (*function)(void *), void *data)
{
    return hip_put(stream, &(struct hip_work){.kind = WORK_HOST, .host = {function, data}});
}

EXPORT int hipMemPoolCreate(void **pool, const void *properties)
{
    (void)properties;
    *pool = calloc(1, 1);
    return *pool != NULL ? HIP_OK : hip_fail(HIP_OUT_OF_MEMORY);
}

EXPORT int hipMemPoolDestroy(void *pool)
{
    free(pool);
    return HIP_OK;
}

EXPORT int hipMemPoolSetAttribute(void *pool, int attribute, void *value)
{
    (void)pool, (void)attribute, (void)value;
    return HIP_OK;
}

/* Kernels register themselves while the library is loaded, by one thread. */
static struct kernel {
    const void *function;
    const char *name;
} * kernels;
static size_t n_kernels, kernels_room;

EXPORT void **__hipRegisterFatBinary(const void *data);
EXPORT void __hipUnregisterFatBinary(void **handle);
EXPORT void __hipRegisterFunction(void **handle, const void *function, char *device_name,
                                  const char *name, unsigned limit, void *tid, void *bid,
                                  void *block, void *grid, int *size);
EXPORT int __hipPopCallConfiguration(struct hip_dim3 *grid, struct hip_dim3 *block, size_t *shared,
                                     void **stream);

void **__hipRegisterFatBinary(const void *data)
{
    static void *handle;
    (void)data;
    return &handle;
}

void __hipUnregisterFatBinary(void **handle)
{
    (void)handle;
}

void __hipRegisterFunction(void **handle, const void *function, char *device_name, const char *name,
                           unsigned limit, void *tid, void *bid, void *block, void *grid, int *size)
{
    (void)handle, (void)device_name, (void)limit, (void)tid, (void)bid, (void)block, (void)grid;
    (void)size;
    if (n_kernels == kernels_room) {
        size_t room = kernels_room > 0 ? 2 * kernels_room : 64;
        struct kernel *more = realloc(kernels, room * sizeof *more);
        if (more == NULL)
            return; /* it runs without a name */
        kernels = more;
        kernels_room = room;
    }
    kernels[n_kernels++] = (struct kernel){function, name};
}

/* Called by the stubs of kernels that are started with <<<>>>, which the library does not do. */
int __hipPopCallConfiguration(struct hip_dim3 *grid, struct hip_dim3 *block, size_t *shared,
                              void **stream)
{
    (void)grid, (void)block, (void)shared, (void)stream;
    return hip_unmade("kernel start by <<<>>>");
}

EXPORT int hipFuncGetAttributes(struct hip_function_attributes *attributes, const void *function)
{
    (void)function;
    *attributes = (struct hip_function_attributes){
        .binary_version = 94, .max_threads = 256, .registers = 96, .shared_bytes = 16384};
    return HIP_OK;
}

EXPORT int hipFuncSetAttribute(const void *function, int attribute, int value)
{
    (void)function, (void)attribute, (void)value;
    return HIP_OK;
}

void hip_do(const struct hip_work *work)
{
    const char *name = "";
    switch (work->kind) {
    case WORK_HOST:
        work->host.function(work->host.data);
        break;
    case WORK_EVENT:
        hipEventRecord(work->event, NULL);
        break;
    case WORK_KERNEL:
        for (size_t i = 0; i < n_kernels; i++) {
            if (kernels[i].function == work->kernel.function)
                name = kernels[i].name;
        }
        hip_note_kernel(work->kernel.device, name, work->kernel.grid);
        atomic_fetch_add(&clock_us, 1);
    }
}

static int launch(void *stream, const void *function, struct hip_dim3 grid)
{
    return hip_put(stream, &(struct hip_work){.kind = WORK_KERNEL,
                                              .kernel = {function, grid.x, hip_current()}});
}

EXPORT int hipLaunchKernel(const void *function, struct hip_dim3 grid, struct hip_dim3 block,
                           void **arguments, size_t shared, void *stream)
{
    (void)block, (void)arguments, (void)shared;
    return launch(stream, function, grid);
}

EXPORT int hipExtLaunchKernel(const void *function, struct hip_dim3 grid, struct hip_dim3 block,
                              void **arguments, size_t shared, void *stream, void *before,
                              void *after, int flags)
{
    (void)block, (void)arguments, (void)shared, (void)flags;
    if (before != NULL)
        hipEventRecord(before, stream);
    int result = launch(stream, function, grid);
    if (after != NULL && result == HIP_OK)
        hipEventRecord(after, stream);
    return result;
}
