/* The functions of the real library and of the stand-in HIP runtime that the benchmark calls. */
#ifndef RCCLTUNE_SIM_REAL_API_H
#define RCCLTUNE_SIM_REAL_API_H

#include <stddef.h>
#include <stdint.h>

#include "../hip/hip.h"

#define REAL_LIBRARY_VARIABLE "RCCLTUNE_SIM_LIBRCCL"
#define REAL_FOLDER_VARIABLE  "RCCLTUNE_SIM_HIP"

struct unique_id {
    uint64_t words[16];
};

/* clang-format off */
/* RCCL's public interface (rccl.h of ROCm 7.2.4); an unscoped enum is an int.  rcclGetAlgoInfo
 * takes communicator, function, count, type, two that do not matter here, calls of a group; it
 * gives algorithm, protocol, channels. */
#define REAL_RCCL(X) \
    X(int, get_version, ncclGetVersion, (int *)) \
    X(int, get_unique_id, ncclGetUniqueId, (struct unique_id *)) \
    X(int, comm_init_rank, ncclCommInitRank, (void **, int, struct unique_id, int)) \
    X(int, comm_finalize, ncclCommFinalize, (void *)) \
    X(int, comm_destroy, ncclCommDestroy, (void *)) \
    X(int, comm_abort, ncclCommAbort, (void *)) \
    X(const char *, get_last_error, ncclGetLastError, (void *)) \
    X(int, group_start, ncclGroupStart, (void)) \
    X(int, group_end, ncclGroupEnd, (void)) \
    X(int, all_reduce, ncclAllReduce, (const void *, void *, size_t, int, int, void *, void *)) \
    X(int, reduce_scatter, ncclReduceScatter, \
      (const void *, void *, size_t, int, int, void *, void *)) \
    X(int, all_gather, ncclAllGather, (const void *, void *, size_t, int, void *, void *)) \
    X(int, broadcast, ncclBroadcast, (const void *, void *, size_t, int, int, void *, void *)) \
    X(int, reduce, ncclReduce, (const void *, void *, size_t, int, int, int, void *, void *)) \
    X(int, all_to_all, ncclAllToAll, (const void *, void *, size_t, int, void *, void *)) \
    X(int, comm_register, ncclCommRegister, (void *, void *, size_t, void **)) \
    X(int, window_register, ncclCommWindowRegister, (void *, void *, size_t, void **, int)) \
    X(int, get_algorithm, rcclGetAlgoInfo, \
      (void *, int, uint64_t, int, int, int, int, int *, int *, int *)) \
    X(int, get_algorithm_name, rcclGetAlgoName, (int, const char **)) \
    X(int, get_protocol_name, rcclGetProtocolName, (int, const char **))

#define REAL_HIP(X) \
    X(void, devices, rccltune_hip_devices, (const struct hip_node *)) \
    X(void, forget, rccltune_hip_forget, (int)) \
    X(void, ran, rccltune_hip_ran, (int, int, struct hip_ran *)) \
    X(int, set_device, hipSetDevice, (int)) \
    X(int, malloc, hipMalloc, (void **, size_t)) \
    X(int, stream, hipStreamCreateWithFlags, (void **, unsigned)) \
    X(int, begin_capture, hipStreamBeginCapture, (void *, int)) \
    X(int, end_capture, hipStreamEndCapture, (void *, void **)) \
    X(int, instantiate, hipGraphInstantiate, (void **, void *, void **, char *, size_t)) \
    X(int, launch_graph, hipGraphLaunch, (void *, void *)) \
    X(int, destroy_graph, hipGraphDestroy, (void *)) \
    X(int, destroy_instance, hipGraphExecDestroy, (void *))
/* clang-format on */

#define REAL_MEMBER(result, member, name, arguments) result(*member) arguments;
extern struct real_rccl {
    REAL_RCCL(REAL_MEMBER)
} real_rccl;
extern struct real_hip {
    REAL_HIP(REAL_MEMBER)
} real_hip;

/* Find them; a library that does not load ends the program. */
void real_load(void);

#endif
