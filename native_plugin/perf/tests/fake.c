/*
 * A library and a runtime in one file, that do nothing: enough for ranks to start, meet, call and
 * end.  What goes wrong comes from the environment: FAKE_FAULT is exit, kill, hang, error or
 * capture, and strikes rank FAKE_RANK at its call number FAKE_CALL.  FAKE_FREE_MIB is device
 * memory, FAKE_DEVICES how many devices there are, FAKE_SAME_DEVICE=1 gives all the same address,
 * FAKE_BUS this one.  FAKE_MEMORY=0: the library allocates none.  FAKE_WAY_US: what it takes to
 * wait for a stream that is done.  FAKE_SAYS: graphs are said as they come and go.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define NOTHING(name, ...)                                                                         \
    EXPORT int name(__VA_ARGS__);                                                                  \
    int name(__VA_ARGS__)                                                                          \
    {                                                                                              \
        return 0;                                                                                  \
    }

struct unique_id {
    char bytes[128];
};

static int rank, device, calls;
static int capturing;

static int number(const char *name, int otherwise)
{
    const char *value = getenv(name);
    return value != NULL ? atoi(value) : otherwise;
}

static int is_fault(const char *name)
{
    const char *fault = getenv("FAKE_FAULT");
    return fault != NULL && strcmp(fault, name) == 0 && rank == number("FAKE_RANK", 0);
}

/* Calls to warm up, 1 MiB of floats each, are not counted: how many there are depends on time. */
enum { WARM_COUNT = 1 << 18 };

static int call(size_t n)
{
    calls += n != WARM_COUNT;
    if (n == WARM_COUNT || calls < number("FAKE_CALL", 1))
        return 0;
    if (is_fault("exit"))
        _exit(9);
    if (is_fault("kill"))
        raise(SIGKILL);
    while (is_fault("hang"))
        pause();
    return is_fault("error") ? 3 : is_fault("capture") && capturing ? 5 : 0;
}

NOTHING(cudaFree, void *p)
NOTHING(cudaGetLastError, void)
NOTHING(cudaGraphLaunch, void *graph, void *stream)
NOTHING(cudaGraphExecDestroy, void *graph)
NOTHING(ncclCommDestroy, void *comm)
NOTHING(ncclMemFree, void *p)
NOTHING(ncclGroupStart, void)
NOTHING(ncclGroupEnd, void)

static void say(const char *words)
{
    if (getenv("FAKE_SAYS") != NULL)
        puts(words);
    fflush(stdout);
}

EXPORT int cudaGraphDestroy(void *graph);
int cudaGraphDestroy(void *graph)
{
    (void)graph;
    say("graph destroyed");
    return 0;
}

/* The way to a device and back may be long. */
EXPORT int cudaStreamSynchronize(void *stream);
int cudaStreamSynchronize(void *stream)
{
    (void)stream;
    usleep((unsigned)number("FAKE_WAY_US", 0));
    return 0;
}

EXPORT int cudaEventCreateWithFlags(void **event, unsigned flags);
int cudaEventCreateWithFlags(void **event, unsigned flags)
{
    (void)flags;
    *event = malloc(sizeof(struct timespec));
    return *event != NULL ? 0 : 2;
}

EXPORT int cudaEventRecord(void *event, void *stream);
int cudaEventRecord(void *event, void *stream)
{
    (void)stream;
    return clock_gettime(CLOCK_MONOTONIC, event);
}

EXPORT int cudaEventElapsedTime(float *ms, void *from, void *to);
int cudaEventElapsedTime(float *ms, void *from, void *to)
{
    const struct timespec *a = from, *b = to;
    *ms = 1e3f * (float)(b->tv_sec - a->tv_sec) + 1e-6f * (float)(b->tv_nsec - a->tv_nsec);
    return 0;
}

EXPORT int cudaGetDeviceCount(int *n);
int cudaGetDeviceCount(int *n)
{
    *n = number("FAKE_DEVICES", 8);
    return 0;
}

EXPORT int cudaSetDevice(int wanted);
int cudaSetDevice(int wanted)
{
    device = wanted;
    return 0;
}

EXPORT int cudaDeviceGetPCIBusId(char *text, int size, int wanted);
int cudaDeviceGetPCIBusId(char *text, int size, int wanted)
{
    int bus = number("FAKE_SAME_DEVICE", 0) == 1 ? 1 : number("FAKE_BUS", wanted + 1);
    snprintf(text, (size_t)size, "0000:%02X:00.0", (unsigned)bus);
    return 0;
}

EXPORT int cudaGetDeviceProperties_v2(char *properties, int wanted);
int cudaGetDeviceProperties_v2(char *properties, int wanted)
{
    sprintf(properties, "Fake H%d", wanted >= 0 ? 200 : 0);
    return 0;
}

EXPORT int cudaDeviceGetAttribute(int *value, int attribute, int wanted);
int cudaDeviceGetAttribute(int *value, int attribute, int wanted)
{
    (void)wanted;
    *value = attribute == 16 ? 132 : attribute == 75 ? 9 : attribute == 76 ? 0 : -1;
    return 0;
}

EXPORT int cudaRuntimeGetVersion(int *version);
int cudaRuntimeGetVersion(int *version)
{
    *version = 12090;
    return 0;
}

EXPORT int cudaMemGetInfo(size_t *free_bytes, size_t *all);
int cudaMemGetInfo(size_t *free_bytes, size_t *all)
{
    *all = (size_t)80 << 30;
    *free_bytes = (size_t)number("FAKE_FREE_MIB", 79 << 10) << 20;
    return 0;
}

EXPORT int cudaMalloc(void **p, size_t bytes);
int cudaMalloc(void **p, size_t bytes)
{
    *p = malloc(bytes);
    return *p != NULL ? 0 : 2;
}

EXPORT int ncclMemAlloc(void **p, size_t bytes);
int ncclMemAlloc(void **p, size_t bytes)
{
    return number("FAKE_MEMORY", 1) == 1 ? cudaMalloc(p, bytes) : 3;
}

EXPORT int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream);
int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream)
{
    (void)kind, (void)stream;
    memcpy(to, from, bytes);
    return 0;
}

EXPORT int cudaMemsetAsync(void *to, int value, size_t bytes, void *stream);
int cudaMemsetAsync(void *to, int value, size_t bytes, void *stream)
{
    (void)stream;
    memset(to, value, bytes < 4096 ? bytes : 4096);
    return 0;
}

EXPORT int cudaStreamCreateWithFlags(void **stream, unsigned flags);
int cudaStreamCreateWithFlags(void **stream, unsigned flags)
{
    (void)flags;
    *stream = &device;
    return 0;
}

EXPORT const char *cudaGetErrorString(int error);
const char *cudaGetErrorString(int error)
{
    return error == 5 ? "operation not permitted when stream is capturing" : "an error";
}

EXPORT int cudaStreamBeginCapture(void *stream, int mode);
int cudaStreamBeginCapture(void *stream, int mode)
{
    (void)stream, (void)mode;
    capturing = 1;
    return 0;
}

EXPORT int cudaStreamEndCapture(void *stream, void **graph);
int cudaStreamEndCapture(void *stream, void **graph)
{
    (void)stream;
    capturing = 0;
    say("captured");
    *graph = is_fault("capture") ? NULL : &device;
    return is_fault("capture") ? 5 : 0;
}

EXPORT int cudaGraphInstantiateWithFlags(void **made, void *graph, unsigned long long flags);
int cudaGraphInstantiateWithFlags(void **made, void *graph, unsigned long long flags)
{
    (void)flags;
    *made = graph;
    return 0;
}

EXPORT int ncclGetVersion(int *version);
int ncclGetVersion(int *version)
{
    *version = 22809;
    return 0;
}

EXPORT int ncclGetUniqueId(struct unique_id *id);
int ncclGetUniqueId(struct unique_id *id)
{
    snprintf(id->bytes, sizeof id->bytes, "id of %d", (int)getpid());
    return 0;
}

/* What a configuration file of the library does: NCCL_ALGO is there though nobody set it. */
EXPORT int ncclCommInitRank(void **comm, int n, struct unique_id id, int own);
int ncclCommInitRank(void **comm, int n, struct unique_id id, int own)
{
    (void)n;
    rank = own;
    setenv("NCCL_SEEN_ID", id.bytes, 1);
    if (number("FAKE_CONF", 0) == 1)
        setenv("NCCL_ALGO", "ring", 0);
    *comm = &rank;
    return 0;
}

EXPORT const char *ncclGetErrorString(int error);
const char *ncclGetErrorString(int error)
{
    return error == 3 ? "internal error" : "unhandled cuda error";
}

EXPORT const char *ncclGetLastError(void *comm);
const char *ncclGetLastError(void *comm)
{
    (void)comm;
    return "the fake's own words";
}

#define CALL(name, ...)                                                                            \
    EXPORT int name(__VA_ARGS__);                                                                  \
    int name(__VA_ARGS__)                                                                          \
    {                                                                                              \
        return call(n);                                                                            \
    }
CALL(ncclAllReduce, const void *s, void *r, size_t n, int t, int o, void *c, void *st)
CALL(ncclAllGather, const void *s, void *r, size_t n, int t, void *c, void *st)
CALL(ncclReduceScatter, const void *s, void *r, size_t n, int t, int o, void *c, void *st)
CALL(ncclBroadcast, const void *s, void *r, size_t n, int t, int root, void *c, void *st)
CALL(ncclReduce, const void *s, void *r, size_t n, int t, int o, int root, void *c, void *st)
CALL(ncclSend, const void *s, size_t n, int t, int peer, void *c, void *st)
CALL(ncclRecv, void *r, size_t n, int t, int peer, void *c, void *st)
