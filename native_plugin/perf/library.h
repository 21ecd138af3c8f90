/*
 * RCCL or NCCL and the runtime under it, opened by dlopen: no header of theirs is needed, one
 * program measures every release.
 *
 * Signatures: NCCL's nccl.h and CUDA's cuda_runtime_api.h, whose functions HIP has under its own
 * prefix.  Graphs are made by ...InstantiateWithFlags, which is the same for both:
 * hipGraphInstantiate takes five arguments, CUDA's three.
 */
#ifndef RCCLTUNE_PERF_LIBRARY_H
#define RCCLTUNE_PERF_LIBRARY_H

#include "perf.h"

struct unique_id {
    char bytes[128];
};

enum { COPY_TO_DEVICE = 1, COPY_TO_HOST = 2, COPY_ON_DEVICE = 3 };
enum { CAPTURE_THREAD_LOCAL = 1, STREAM_NON_BLOCKING = 1, SCALAR_ON_HOST = 1 };

/* clang-format off */
#define NCCL_FUNCTIONS(X) \
    X(int, get_version, ncclGetVersion, (int *)) \
    X(int, get_unique_id, ncclGetUniqueId, (struct unique_id *)) \
    X(int, init_rank, ncclCommInitRank, (void **, int, struct unique_id, int)) \
    X(int, destroy, ncclCommDestroy, (void *)) \
    X(const char *, error_string, ncclGetErrorString, (int)) \
    X(int, group_start, ncclGroupStart, (void)) \
    X(int, group_end, ncclGroupEnd, (void)) \
    X(int, all_reduce, ncclAllReduce, (const void *, void *, size_t, int, int, void *, void *)) \
    X(int, all_gather, ncclAllGather, (const void *, void *, size_t, int, void *, void *)) \
    X(int, reduce_scatter, ncclReduceScatter, (const void *, void *, size_t, int, int, void *, void *)) \
    X(int, broadcast, ncclBroadcast, (const void *, void *, size_t, int, int, void *, void *)) \
    X(int, reduce, ncclReduce, (const void *, void *, size_t, int, int, int, void *, void *)) \
    X(int, send, ncclSend, (const void *, size_t, int, int, void *, void *)) \
    X(int, receive, ncclRecv, (void *, size_t, int, int, void *, void *))

/* NULL where the library lacks them. */
#define NCCL_PERHAPS(X) \
    X(const char *, last_error, ncclGetLastError, (void *)) \
    X(int, abort, ncclCommAbort, (void *)) \
    X(int, allocate, ncclMemAlloc, (void **, size_t)) \
    X(int, release, ncclMemFree, (void *)) \
    X(void, reset_log, ncclResetDebugInit, (void)) \
    X(int, make_mulsum, ncclRedOpCreatePreMulSum, (int *, void *, int, int, void *)) \
    X(int, destroy_op, ncclRedOpDestroy, (int, void *)) \
    X(void, moves, rccltune_simulated_moves_v1, (int))

/* The name is without cuda or hip. */
#define RUNTIME_FUNCTIONS(X) \
    X(int, count_devices, GetDeviceCount, (int *)) \
    X(int, set_device, SetDevice, (int)) \
    X(int, bus_id, DeviceGetPCIBusId, (char *, int, int)) \
    X(int, memory, MemGetInfo, (size_t *, size_t *)) \
    X(int, allocate, Malloc, (void **, size_t)) \
    X(int, release, Free, (void *)) \
    X(int, copy, MemcpyAsync, (void *, const void *, size_t, int, void *)) \
    X(int, fill, MemsetAsync, (void *, int, size_t, void *)) \
    X(int, make_stream, StreamCreateWithFlags, (void **, unsigned)) \
    X(int, wait, StreamSynchronize, (void *)) \
    X(int, make_event, EventCreateWithFlags, (void **, unsigned)) \
    X(int, record, EventRecord, (void *, void *)) \
    X(int, elapsed, EventElapsedTime, (float *, void *, void *)) \
    X(const char *, error_string, GetErrorString, (int)) \
    X(int, last_error, GetLastError, (void)) \
    X(int, begin_capture, StreamBeginCapture, (void *, int)) \
    X(int, end_capture, StreamEndCapture, (void *, void **)) \
    X(int, instantiate, GraphInstantiateWithFlags, (void **, void *, unsigned long long)) \
    X(int, launch, GraphLaunch, (void *, void *)) \
    X(int, destroy_instance, GraphExecDestroy, (void *)) \
    X(int, destroy_graph, GraphDestroy, (void *))
/* clang-format on */

#define MEMBER(result, member, name, arguments) result(*member) arguments;
extern struct nccl {
    NCCL_FUNCTIONS(MEMBER)
    NCCL_PERHAPS(MEMBER)
    /* ncclAllToAll of RCCL, ncclAlltoAll of NCCL from 2.28 on; NULL in older ones. */
    int (*all_to_all)(const void *, void *, size_t, int, void *, void *);
} nccl;

extern struct runtime {
    RUNTIME_FUNCTIONS(MEMBER)
    bool is_hip;
    bool has_fnuz; /* fp8 as gfx940 to gfx942 have it, not as everybody else (OCP) */
    /* Of a simulated machine; NULL on hardware. */
    double (*clock)(void);
    const char *(*words)(void);
} runtime;

/* Whether kernels run at all: over a simulated machine only the stand-in library's do, the real
 * one's are noted and no more. */
bool kernels_run(void);

/* Whether what is called, and replayed, from here on moves data too: the stand-in library's calls
 * only take their time otherwise.  Real ones always do. */
void move_data(bool wanted);

/* Opens the library and the runtime (NULL: the one that the library brings, else the system's) and
 * says in the rows which they are, or ends the program saying what was looked for. */
void library_open(const char *library, const char *runtime_file);

/* Opens the plugin as the library will, so that both have one copy; finds its functions. */
struct rccltune_answer;
struct rccltune_asked;
extern struct plugin {
    int (*answer)(const struct rccltune_answer *); /* NULL without a plugin */
    void (*asked)(struct rccltune_asked *, int);
    void (*questions)(uint64_t *, uint64_t *);
    double (*cost_ns)(void);
} plugin;
void plugin_open(const char *file);

/* Makes a device this thread's, and looks at what depends on it (has_fnuz). */
void device_use(int device);

/* What the runtime says of a device; "" where it says nothing. */
struct device_facts {
    char name[96], arch[64], n_cus[16], runtime[64];
};
void device_facts(int device, struct device_facts *facts);

/* Ends the program in the library's or the runtime's own words where a call failed. */
void check_nccl(int result, const char *what);
void check_runtime(int result, const char *what);

/* Microseconds of the clock that counts: the machine's own where it is simulated. */
double now_us(void);

#endif
