/* Graphs of the stand-in runtime: kept while captured, done when launched, and loud where it
 * cannot. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "machine.h"

int hipSetDevice(int);
int hipStreamCreateWithFlags(void **, unsigned);
int hipStreamDestroy(void *);
int hipStreamSynchronize(void *);
int hipStreamWaitEvent(void *, void *, unsigned);
int hipEventCreate(void **);
int hipEventDestroy(void *);
int hipEventRecord(void *, void *);
int hipEventQuery(void *);
int hipLaunchKernel(const void *, struct hip_dim3, struct hip_dim3, void **, size_t, void *);
int hipLaunchHostFunc(void *, void (*)(void *), void *);
int hipMemcpyAsync(void *, const void *, size_t, int, void *);
int hipMemsetAsync(void *, int, size_t, void *);
int hipStreamBeginCapture(void *, int);
int hipStreamEndCapture(void *, void **);
int hipStreamIsCapturing(void *, int *);
int hipStreamGetCaptureInfo_v2(void *, int *, unsigned long long *, void **, const void **,
                               size_t *);
int hipStreamUpdateCaptureDependencies(void *, void **, size_t, unsigned);
int hipGraphAddHostNode(void **, void *, void *const *, size_t, const struct hip_host_work *);
int hipGraphAddEventRecordNode(void **, void *, void *const *, size_t, void *);
int hipGraphAddDependencies(void *, void *const *, void *const *, size_t);
int hipUserObjectCreate(void **, void *, void (*)(void *), unsigned, unsigned);
int hipGraphRetainUserObject(void *, void *, unsigned, unsigned);
int hipGraphInstantiate(void **, void *, void **, char *, size_t);
int hipGraphLaunch(void *, void *);
int hipGraphDestroy(void *);
int hipGraphExecDestroy(void *);

enum { DEVICE = 3 };

static void count(void *data)
{
    ++*(int *)data;
}

static void launch(void *stream, unsigned grid)
{
    CHECK(hipLaunchKernel(NULL, (struct hip_dim3){grid, 1, 1}, (struct hip_dim3){256, 1, 1}, NULL,
                          0, stream) == HIP_OK);
}

static int launches(void)
{
    struct hip_ran ran;
    rccltune_hip_ran(DEVICE, 0, &ran);
    return ran.n_launches;
}

static unsigned grid_of(int number)
{
    struct hip_ran ran;
    rccltune_hip_ran(DEVICE, number, &ran);
    return ran.grid;
}

static void *stream_of(void)
{
    void *stream = NULL;
    CHECK(hipStreamCreateWithFlags(&stream, 1) == HIP_OK);
    return stream;
}

/* A kernel and a function of the host: nothing while they are captured, once a launch afterwards,
 * on the device that they were put on and in their order. */
static void test_launches(void)
{
    void *stream = stream_of(), *graph = NULL, *instance = NULL;
    int called = 0, status = -1;
    rccltune_hip_forget(DEVICE);
    hipSetDevice(DEVICE);
    CHECK(hipStreamBeginCapture(stream, 0) == HIP_OK);
    CHECK(hipStreamIsCapturing(stream, &status) == HIP_OK && status == CAPTURE_ACTIVE);
    launch(stream, 7);
    CHECK(hipLaunchHostFunc(stream, count, &called) == HIP_OK);
    launch(stream, 9);
    CHECK(launches() == 0 && called == 0);
    CHECK(hipStreamEndCapture(stream, &graph) == HIP_OK);
    CHECK(hipStreamIsCapturing(stream, &status) == HIP_OK && status == CAPTURE_NONE);
    CHECK(hipGraphInstantiate(&instance, graph, NULL, NULL, 0) == HIP_OK);
    CHECK(hipGraphDestroy(graph) == HIP_OK); /* what was made of it lives on */
    hipSetDevice(0);
    CHECK(hipGraphLaunch(instance, stream) == HIP_OK && launches() == 2 && called == 1);
    CHECK(hipGraphLaunch(instance, stream) == HIP_OK && launches() == 4 && called == 2);
    CHECK(grid_of(0) == 7 && grid_of(1) == 9 && grid_of(2) == 7 && grid_of(4) == 0);
    launch(stream, 1); /* no longer captured */
    CHECK(launches() == 4);
    CHECK(hipGraphExecDestroy(instance) == HIP_OK);
    hipStreamDestroy(stream);
}

/* A stream that waits for a captured one is captured as well, and free when the capture ends. */
static void test_events(void)
{
    void *first = stream_of(), *second = stream_of(), *third = stream_of(), *graph = NULL;
    void *event = NULL, *of_both = NULL;
    unsigned long long id = 0, joined = 0;
    const void *dependencies = NULL;
    int status = -1;
    size_t n = 9;
    rccltune_hip_forget(DEVICE);
    hipSetDevice(DEVICE);
    hipEventCreate(&event);
    CHECK(hipEventRecord(event, first) == HIP_OK && hipStreamWaitEvent(second, event, 0) == HIP_OK);
    CHECK(hipStreamIsCapturing(second, &status) == HIP_OK && status == CAPTURE_NONE);
    CHECK(hipStreamBeginCapture(first, 0) == HIP_OK);
    CHECK(hipStreamGetCaptureInfo_v2(first, &status, &id, &graph, &dependencies, &n) == HIP_OK);
    CHECK(id != 0 && graph != NULL && n == 0);
    launch(first, 1);
    CHECK(hipEventRecord(event, first) == HIP_OK);
    CHECK(hipEventQuery(event) == HIP_CAPTURED_EVENT);
    CHECK(hipStreamWaitEvent(second, event, 0) == HIP_OK);
    CHECK(hipStreamWaitEvent(third, event, 0) == HIP_OK);
    hipStreamDestroy(third);
    launch(second, 2);
    CHECK(hipStreamGetCaptureInfo_v2(second, &status, &joined, NULL, &dependencies, &n) == HIP_OK);
    CHECK(joined == id && n == 1);
    CHECK(hipStreamUpdateCaptureDependencies(second, NULL, 0, CAPTURE_DEPENDENCIES_SET) == HIP_OK);
    CHECK(hipStreamGetCaptureInfo_v2(second, &status, NULL, NULL, NULL, &n) == HIP_OK && n == 0);
    CHECK(hipStreamEndCapture(second, &of_both) == HIP_CAPTURE_UNMATCHED);
    CHECK(hipStreamEndCapture(first, &of_both) == HIP_OK && of_both == graph);
    CHECK(hipStreamIsCapturing(second, &status) == HIP_OK && status == CAPTURE_NONE);
    CHECK(hipStreamWaitEvent(second, event, 0) == HIP_CAPTURED_EVENT); /* its capture is over */
    CHECK(launches() == 0);
    CHECK(hipGraphLaunch(graph, first) == HIP_OK && launches() == 2);
    hipGraphDestroy(graph);
    hipEventDestroy(event);
    hipStreamDestroy(first);
    hipStreamDestroy(second);
}

/* What a library adds to a user's graph by hand, and what it is told when that goes away. */
static void test_nodes(void)
{
    void *stream = stream_of(), *graph = NULL, *instance = NULL, *object = NULL, *event = NULL;
    void *early = NULL, *late = NULL;
    int status = -1, called = 0, destroyed = 0;
    hipEventCreate(&event);
    CHECK(hipStreamBeginCapture(stream, 0) == HIP_OK);
    CHECK(hipStreamGetCaptureInfo_v2(stream, &status, NULL, &graph, NULL, NULL) == HIP_OK);
    CHECK(hipGraphAddHostNode(&early, graph, NULL, 0, &(struct hip_host_work){count, &called}) ==
          HIP_OK);
    CHECK(hipGraphAddEventRecordNode(&late, graph, &early, 1, event) == HIP_OK);
    CHECK(hipGraphAddDependencies(graph, &early, &late, 1) == HIP_OK);
    CHECK(hipGraphAddDependencies(graph, &late, &early, 1) == HIP_NOT_SUPPORTED);
    CHECK(hipStreamUpdateCaptureDependencies(stream, &late, 1, 0) == HIP_OK);
    CHECK(hipUserObjectCreate(&object, &destroyed, count, 1, 1) == HIP_OK);
    CHECK(hipGraphRetainUserObject(graph, object, 1, USER_OBJECT_MOVE) == HIP_OK);
    CHECK(hipStreamEndCapture(stream, &graph) == HIP_OK);
    CHECK(hipGraphInstantiate(&instance, graph, NULL, NULL, 0) == HIP_OK);
    CHECK(hipGraphLaunch(instance, stream) == HIP_OK && called == 1);
    CHECK(hipEventQuery(event) == HIP_OK);
    CHECK(hipGraphExecDestroy(instance) == HIP_OK && destroyed == 0);
    CHECK(hipGraphDestroy(graph) == HIP_OK && destroyed == 1);
    hipEventDestroy(event);
    hipStreamDestroy(stream);
}

/* What a graph here cannot hold, or HIP forbids, fails and is not done. */
static void test_what_cannot_be(void)
{
    void *stream = stream_of(), *graph = NULL;
    char from[4] = "abc", to[4] = "";
    CHECK(hipStreamBeginCapture(NULL, 0) == HIP_CAPTURE_UNSUPPORTED);
    CHECK(hipStreamEndCapture(stream, &graph) == HIP_CAPTURE_UNMATCHED);
    CHECK(hipStreamUpdateCaptureDependencies(stream, NULL, 0, 0) == HIP_ILLEGAL_STATE);
    CHECK(hipStreamBeginCapture(stream, 0) == HIP_OK);
    CHECK(hipStreamBeginCapture(stream, 0) == HIP_CAPTURE_UNSUPPORTED);
    CHECK(hipStreamSynchronize(stream) == HIP_CAPTURE_UNSUPPORTED);
    CHECK(hipMemcpyAsync(to, from, sizeof to, 4, stream) == HIP_NOT_SUPPORTED);
    CHECK(hipMemsetAsync(to, 1, sizeof to, stream) == HIP_NOT_SUPPORTED);
    CHECK(strcmp(to, "") == 0);
    CHECK(hipGraphLaunch(NULL, stream) == HIP_NOT_SUPPORTED);
    CHECK(hipStreamEndCapture(stream, &graph) == HIP_OK);
    hipGraphDestroy(graph);
    CHECK(hipStreamSynchronize(stream) == HIP_OK);
    hipStreamDestroy(stream);
}

int main(void)
{
    struct hip_node node = {.n_devices = 8, .per_oam = 1, .arch = "gfx942"};
    rccltune_hip_devices(&node);
    test_launches();
    test_events();
    test_nodes();
    test_what_cannot_be();
    return check_failures != 0;
}
