/*
 * Streams, events, kernels and the simulated clock.  What a library and its kernels do to the host
 * is done at once; that a kernel takes time is kept as the time until which its stream is busy, and
 * the clock moves there when the stream is waited for.  Launching costs the host a little, so that
 * the clock never stands still between two launches.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../include/rccltune_simulated.h"
#include "launched.h"
#include "stream.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a library's threads launch, too */
static double host_us;
static struct hip_stream null_stream; /* and behind it all others of this process */
/* When the kernel at hand was launched, where that was before now; below zero: now. */
static _Thread_local double launched_us = -1;

/* Kernels of which nobody knows what they do, and waiting for a stream that is idle. */
static const double unknown_us = 1, wait_us = 0.1;

struct event {
    double us;
    /* Of the stream that it was last recorded in, while that was captured. */
    unsigned long long capture;
    void *last;
};

static struct hip_stream *stream_of(void *stream)
{
    return stream != NULL ? stream : &null_stream;
}

double hip_host_us(void)
{
    pthread_mutex_lock(&lock);
    double us = host_us;
    pthread_mutex_unlock(&lock);
    return us;
}

void hip_host_pass(double us)
{
    pthread_mutex_lock(&lock);
    host_us += us;
    pthread_mutex_unlock(&lock);
}

void hip_busy(void *stream, double us)
{
    struct hip_stream *s = stream_of(stream);
    pthread_mutex_lock(&lock);
    double from = launched_us >= 0 ? launched_us : host_us;
    s->busy_until_us = (s->busy_until_us > from ? s->busy_until_us : from) + us;
    pthread_mutex_unlock(&lock);
}

EXPORT double rccltune_simulated_clock_v1(void)
{
    return hip_host_us();
}

static void catch_up(const struct hip_stream *s)
{
    pthread_mutex_lock(&lock);
    host_us += wait_us;
    if (host_us < s->busy_until_us)
        host_us = s->busy_until_us;
    pthread_mutex_unlock(&lock);
}

static void release(struct hip_deferred *deferred)
{
    if (--deferred->references > 0)
        return;
    deferred->release(deferred->data);
    free(deferred);
}

bool hip_is_waiting(const void *stream)
{
    const struct hip_stream *s = stream;
    return (s != NULL ? s : &null_stream)->waiting.n > 0;
}

static int defer(struct hip_stream *s, struct hip_deferred *deferred)
{
    struct waiting *waiting = &s->waiting;
    if (waiting->n == waiting->room) {
        size_t room = waiting->room > 0 ? 2 * waiting->room : 16;
        struct hip_deferred **more = realloc(waiting->at, room * sizeof(*more));
        if (more == NULL)
            return hip_fail(HIP_OUT_OF_MEMORY);
        waiting->at = more;
        waiting->room = room;
    }
    waiting->at[waiting->n++] = deferred;
    deferred->references++;
    return HIP_OK;
}

static void do_waiting(struct hip_stream *s)
{
    struct waiting waiting = s->waiting;
    s->waiting = (struct waiting){0};
    for (size_t i = 0; i < waiting.n; i++) {
        waiting.at[i]->run(waiting.at[i]->data);
        release(waiting.at[i]);
    }
    free(waiting.at);
}

int rccltune_machine_defer(void *stream, void (*run)(void *), void (*end)(void *), void *data)
{
    struct hip_deferred *deferred = malloc(sizeof *deferred);
    if (deferred == NULL)
        return hip_fail(HIP_OUT_OF_MEMORY);
    *deferred = (struct hip_deferred){run, end, data, 1};
    int result = hip_put(stream, &(struct hip_work){.kind = WORK_DEFERRED, .deferred = deferred});
    release(deferred); /* the stream or the graph has it now */
    return result;
}

EXPORT int hipStreamCreateWithFlags(void **stream, unsigned flags)
{
    struct hip_stream *made = calloc(1, sizeof *made);
    (void)flags;
    *stream = made;
    if (made == NULL)
        return hip_fail(HIP_OUT_OF_MEMORY);
    pthread_mutex_lock(&lock);
    made->others = null_stream.others;
    null_stream.others = made;
    pthread_mutex_unlock(&lock);
    return HIP_OK;
}

EXPORT int hipStreamDestroy(void *stream)
{
    struct hip_stream *s = stream, *before = &null_stream;
    if (s == NULL)
        return hip_fail(HIP_INVALID_VALUE);
    hip_leave_capture(stream);
    pthread_mutex_lock(&lock);
    while (before->others != s)
        before = before->others;
    before->others = s->others;
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < s->waiting.n; i++)
        release(s->waiting.at[i]);
    free(s->waiting.at);
    free(s);
    return HIP_OK;
}

EXPORT int hipStreamSynchronize(void *stream)
{
    if (hip_is_captured(stream))
        return hip_fail(HIP_CAPTURE_UNSUPPORTED);
    hip_settle();
    fabric_wait(stream, false);
    do_waiting(stream_of(stream));
    catch_up(stream_of(stream));
    return HIP_OK;
}

EXPORT int hipDeviceSynchronize(void)
{
    hip_settle();
    fabric_wait(NULL, true);
    for (struct hip_stream *s = &null_stream; s != NULL; s = s->others) {
        do_waiting(s);
        catch_up(s);
    }
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
    struct hip_stream *s = stream_of(stream);
    pthread_mutex_lock(&lock);
    recorded->us = s->busy_until_us > host_us ? s->busy_until_us : host_us;
    pthread_mutex_unlock(&lock);
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
    *ms = (float)((((struct event *)to)->us - ((struct event *)from)->us) / 1000);
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

static const char *kernel_name(const void *function)
{
    for (size_t i = 0; i < n_kernels; i++) {
        if (kernels[i].function == function)
            return kernels[i].name;
    }
    return "";
}

/* The last kernel that a thread launched outside of a graph. */
static _Thread_local struct {
    void *stream;
    double at_us;
    struct hip_work work;
} held;

void hip_settle(void)
{
    struct launched *launched = held.work.kernel.launched;
    held.work.kernel.launched = NULL;
    if (launched == NULL)
        return;
    launched_us = held.at_us;
    launched_run(launched, kernel_name(held.work.kernel.function), held.stream, false);
    launched_us = -1;
    launched_end(launched);
}

static void run_launched(void *stream, const struct hip_work *work, bool captured)
{
    struct launched *launched = work->kernel.launched;
    if (captured) {
        launched_run(launched, kernel_name(work->kernel.function), stream, true);
        return;
    }
    held.stream = stream;
    held.at_us = hip_host_us();
    held.work = *work;
}

int hip_do(void *stream, const struct hip_work *work, bool captured)
{
    switch (work->kind) {
    case WORK_HOST:
        work->host.function(work->host.data);
        return HIP_OK;
    case WORK_EVENT:
        return hipEventRecord(work->event, stream);
    case WORK_COLLECTIVE:
        fabric_run(work->collective.fabric, &work->collective.call, stream, captured);
        return HIP_OK;
    case WORK_DEFERRED:
        return defer(stream_of(stream), work->deferred);
    case WORK_KERNEL:
        if (work->kernel.launched != NULL) {
            run_launched(stream, work, captured);
            return HIP_OK;
        }
        hip_note_kernel(work->kernel.device, kernel_name(work->kernel.function), work->kernel.grid);
        hip_busy(stream, unknown_us);
    }
    return HIP_OK;
}

void hip_keep(const struct hip_work *work)
{
    if (work->kind == WORK_COLLECTIVE)
        fabric_keep(work->collective.fabric, 1);
    if (work->kind == WORK_DEFERRED)
        work->deferred->references++;
}

void hip_drop(const struct hip_work *work)
{
    if (work->kind == WORK_COLLECTIVE)
        fabric_keep(work->collective.fabric, -1);
    if (work->kind == WORK_DEFERRED)
        release(work->deferred);
    if (work->kind == WORK_KERNEL)
        launched_end(work->kernel.launched);
}

static int launch(void *stream, const void *function, struct hip_dim3 grid)
{
    struct hip_work work = {.kind = WORK_KERNEL, .kernel = {function, grid.x, hip_current(), NULL}};
    hip_settle();
    if (rccltune_machine_node() != NULL)
        work.kernel.launched = launched_kernel();
    return hip_put(stream, &work);
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
