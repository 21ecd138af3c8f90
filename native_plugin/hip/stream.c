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

struct hip_ran hip_ran[HIP_MAX_DEVICES];
static atomic_long clock_us;

void rccltune_hip_forget(int device)
{
    hip_ran[device] = (struct hip_ran){0};
}

void rccltune_hip_ran(int device, struct hip_ran *ran)
{
    *ran = hip_ran[device];
}

struct event {
    long us;
};

EXPORT int hipStreamCreateWithFlags(void **stream, unsigned flags)
{
    (void)flags;
    *stream = calloc(1, 1);
    return *stream != NULL ? HIP_OK : hip_fail(HIP_OUT_OF_MEMORY);
}

EXPORT int hipStreamDestroy(void *stream)
{
    free(stream);
    return HIP_OK;
}

EXPORT int hipStreamSynchronize(void *stream)
{
    (void)stream;
    return HIP_OK;
}

EXPORT int hipDeviceSynchronize(void)
{
    return HIP_OK;
}

EXPORT int hipStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    (void)stream, (void)event, (void)flags;
    return HIP_OK;
}

/* Nothing is ever captured: the benchmark refuses graphs over the real library. */
EXPORT int hipStreamIsCapturing(void *stream, int *status)
{
    (void)stream;
    *status = 0;
    return HIP_OK;
}

EXPORT int hipStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id,
                                      void **graph, const void **dependencies, size_t *n)
{
    (void)stream;
    *status = 0;
    if (id != NULL)
        *id = 0;
    if (graph != NULL)
        *graph = NULL;
    if (dependencies != NULL)
        *dependencies = NULL;
    if (n != NULL)
        *n = 0;
    return HIP_OK;
}

EXPORT int hipThreadExchangeStreamCaptureMode(int *mode)
{
    (void)mode;
    return HIP_OK;
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
    (void)stream;
    ((struct event *)event)->us = atomic_load(&clock_us);
    return HIP_OK;
}

EXPORT int hipEventQuery(void *event)
{
    (void)event;
    return HIP_OK;
}

EXPORT int hipEventSynchronize(void *event)
{
    (void)event;
    return HIP_OK;
}

EXPORT int hipEventElapsedTime(float *ms, void *from, void *to)
{
    *ms = (float)(((struct event *)to)->us - ((struct event *)from)->us) / 1000.f;
    return HIP_OK;
}

EXPORT int hipLaunchHostFunc(void *stream, void (*function)(void *), void *data)
{
    (void)stream;
    function(data);
    return HIP_OK;
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

static void note(const void *function, struct hip_dim3 grid)
{
    struct hip_ran *ran = &hip_ran[hip_current()];
    ran->n_launches++;
    ran->grid = grid.x;
    ran->kernel[0] = '\0';
    for (size_t i = 0; i < n_kernels; i++) {
        if (kernels[i].function == function)
            snprintf(ran->kernel, sizeof ran->kernel, "%s", kernels[i].name);
    }
    atomic_fetch_add(&clock_us, 1);
}

EXPORT int hipLaunchKernel(const void *function, struct hip_dim3 grid, struct hip_dim3 block,
                           void **arguments, size_t shared, void *stream)
{
    (void)block, (void)arguments, (void)shared, (void)stream;
    note(function, grid);
    return HIP_OK;
}

EXPORT int hipExtLaunchKernel(const void *function, struct hip_dim3 grid, struct hip_dim3 block,
                              void **arguments, size_t shared, void *stream, void *before,
                              void *after, int flags)
{
    (void)block, (void)arguments, (void)shared, (void)flags;
    if (before != NULL)
        hipEventRecord(before, stream);
    note(function, grid);
    if (after != NULL)
        hipEventRecord(after, stream);
    return HIP_OK;
}
