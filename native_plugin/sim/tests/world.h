/*
 * Ranks that open the stand-in libraries as the rank program does: a process each, no header of
 * theirs, ids through shared memory.
 */
#ifndef RCCLTUNE_SIM_WORLD_H
#define RCCLTUNE_SIM_WORLD_H

#include <stddef.h>
#include <stdint.h>

struct id {
    char bytes[128];
};

/* clang-format off */
#define LIBRARY_FUNCTIONS(X) \
    X(int, ncclGetVersion, (int *)) \
    X(int, ncclGetUniqueId, (struct id *)) \
    X(int, ncclCommInitRank, (void **, int, struct id, int)) \
    X(int, ncclCommDestroy, (void *)) \
    X(int, ncclCommAbort, (void *)) \
    X(int, ncclCommFinalize, (void *)) \
    X(int, ncclAllReduce, (const void *, void *, size_t, int, int, void *, void *)) \
    X(int, ncclReduceScatter, (const void *, void *, size_t, int, int, void *, void *)) \
    X(int, ncclAllGather, (const void *, void *, size_t, int, void *, void *)) \
    X(int, ncclBroadcast, (const void *, void *, size_t, int, int, void *, void *)) \
    X(int, ncclReduce, (const void *, void *, size_t, int, int, int, void *, void *)) \
    X(int, ncclAllToAll, (const void *, void *, size_t, int, void *, void *)) \
    X(int, ncclSend, (const void *, size_t, int, int, void *, void *)) \
    X(int, ncclRecv, (void *, size_t, int, int, void *, void *)) \
    X(int, ncclGroupStart, (void)) \
    X(int, ncclGroupEnd, (void)) \
    X(const char *, ncclGetErrorString, (int)) \
    X(const char *, ncclGetLastError, (void *)) \
    X(int, ncclRedOpCreatePreMulSum, (int *, void *, int, int, void *)) \
    X(int, ncclRedOpDestroy, (int, void *)) \
    X(void, rccltune_simulated_moves_v1, (int)) \
    X(double, rccltune_simulated_clock_v1, (void)) \
    X(const char *, rccltune_simulated_words_v1, (void)) \
    X(int, hipGetDeviceCount, (int *)) \
    X(int, hipSetDevice, (int)) \
    X(int, hipDeviceGetPCIBusId, (char *, int, int)) \
    X(int, hipMemGetInfo, (size_t *, size_t *)) \
    X(int, hipMalloc, (void **, size_t)) \
    X(int, hipFree, (void *)) \
    X(int, hipMemcpy, (void *, const void *, size_t, int)) \
    X(int, hipMemcpyAsync, (void *, const void *, size_t, int, void *)) \
    X(int, hipMemsetAsync, (void *, int, size_t, void *)) \
    X(int, hipStreamCreateWithFlags, (void **, unsigned)) \
    X(int, hipStreamSynchronize, (void *)) \
    X(int, hipStreamDestroy, (void *)) \
    X(int, hipStreamBeginCapture, (void *, int)) \
    X(int, hipStreamEndCapture, (void *, void **)) \
    X(int, hipGraphInstantiateWithFlags, (void **, void *, unsigned long long)) \
    X(int, hipGraphLaunch, (void *, void *)) \
    X(int, hipGraphExecDestroy, (void *)) \
    X(int, hipGraphDestroy, (void *)) \
    X(const char *, hipGetErrorString, (int)) \
    X(int, hipGetLastError, (void)) \
    X(int, hipGetDevicePropertiesR0600, (char *, int)) \
    X(int, hipRuntimeGetVersion, (int *))
/* clang-format on */
#define LIBRARY_MEMBER(result, name, arguments) result(*name) arguments;

/* One rank. */
struct world {
    LIBRARY_FUNCTIONS(LIBRARY_MEMBER)
    int rank, n_ranks;
    void *stream, *comm;
};

/* Open the library that SIM_LIBRARY names and what it brings. */
void world_open(struct world *world);
/* Make the next communicator, with all other ranks; an NCCL result. */
int world_communicator(struct world *world);

/* Run a function as each of n ranks, a process each, on the devices in turn; returns the worst exit
 * status, -1 where one was still running after `seconds` and was killed. */
int world_run(int n, double seconds, void (*rank)(struct world *world, void *argument),
              void *argument);
/* What ranks have in common and the parent reads afterwards. */
extern double *world_shared;
enum { WORLD_SHARED = 4096 };

#endif
