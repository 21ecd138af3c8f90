/*
 * As much of HIP's binary interface as RCCL uses, written from facts: numbers, sizes and offsets of
 * ROCm 7.2's x86-64 headers (hip_runtime_api.h, clr 7.2.4).  tests/test_headers.c compares them
 * with the headers themselves where those are given.
 */
#ifndef RCCLTUNE_HIP_ABI_H
#define RCCLTUNE_HIP_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
    HIP_OK = 0,
    HIP_INVALID_VALUE = 1,
    HIP_OUT_OF_MEMORY = 2,
    HIP_NO_DEVICE = 100,
    HIP_INVALID_DEVICE = 101,
    HIP_ILLEGAL_STATE = 401,
    HIP_NOT_FOUND = 500,
    HIP_NOT_SUPPORTED = 801,
    HIP_CAPTURE_UNSUPPORTED = 900,
    HIP_CAPTURE_UNMATCHED = 903,
    HIP_CAPTURED_EVENT = 907
};
enum { HIP_MEMORY_HOST = 1, HIP_MEMORY_DEVICE = 2 };
enum { CAPTURE_NONE = 0, CAPTURE_ACTIVE = 1, CAPTURE_DEPENDENCIES_SET = 1, USER_OBJECT_MOVE = 1 };

struct hip_dim3 {
    uint32_t x, y, z;
};

struct hip_pointer_attributes {
    int type, device;
    void *device_pointer, *host_pointer;
    int is_managed;
    unsigned flags;
};
_Static_assert(sizeof(struct hip_pointer_attributes) == 32, "hipPointerAttribute_t");

/* hipHostNodeParams */
struct hip_host_work {
    void (*function)(void *);
    void *data;
};

struct hip_ipc_handle {
    char reserved[64];
};

struct hip_function_attributes {
    int binary_version, cache_mode;
    size_t constant_bytes, local_bytes;
    int max_dynamic_shared, max_threads, registers, carveout, ptx;
    size_t shared_bytes;
};
_Static_assert(sizeof(struct hip_function_attributes) == 56, "hipFuncAttributes");
_Static_assert(offsetof(struct hip_function_attributes, shared_bytes) == 48, "hipFuncAttributes");

/* hipDeviceProp_tR0600: its size, and where the members are that are filled in. */
enum {
    PROPERTIES_BYTES = 1472,
    AT_NAME = 0,
    AT_UUID = 256,
    AT_GLOBAL_MEMORY = 288,
    AT_SHARED_A_BLOCK = 296,
    AT_REGISTERS_A_BLOCK = 304,
    AT_WARP_SIZE = 308,
    AT_THREADS_A_BLOCK = 320,
    AT_THREADS_DIM = 324,
    AT_GRID_SIZE = 336,
    AT_CLOCK_RATE = 348,
    AT_MAJOR = 360,
    AT_MINOR = 364,
    AT_COMPUTE_UNITS = 388,
    AT_MAPS_HOST_MEMORY = 400,
    AT_CONCURRENT_KERNELS = 576,
    AT_PCI_BUS = 584,
    AT_PCI_DEVICE = 588,
    AT_UNIFIED_ADDRESSING = 604,
    AT_THREADS_A_UNIT = 624,
    AT_SHARED_A_UNIT = 640,
    AT_REGISTERS_A_UNIT = 648,
    AT_HOST_ATOMICS = 664,
    AT_COOPERATIVE_LAUNCH = 688,
    AT_ARCH_NAME = 1160,
    AT_MAX_SHARED_A_UNIT = 1416,
    AT_CLOCK_INSTRUCTION_RATE = 1424,
    AT_ARCH_FEATURES = 1428,
    AT_LARGE_BAR = 1464,
    AT_REVISION = 1468
};

/* hipDeviceAttribute_t */
enum {
    ASK_MAPS_HOST_MEMORY = 3,
    ASK_CLOCK_RATE = 5,
    ASK_COOPERATIVE_LAUNCH = 10,
    ASK_MAJOR = 23,
    ASK_THREADS_A_BLOCK = 56,
    ASK_MINOR = 61,
    ASK_COMPUTE_UNITS = 63,
    ASK_PCI_BUS = 67,
    ASK_PCI_DEVICE = 68,
    ASK_PCI_DOMAIN = 69,
    ASK_SHARED_A_BLOCK = 74,
    ASK_SHARED_OPT_IN = 75,
    ASK_SHARED_A_UNIT = 76,
    ASK_UNIFIED_ADDRESSING = 85,
    ASK_WARP_SIZE = 87,
    ASK_MEMORY_POOLS = 88,
    ASK_VIRTUAL_MEMORY = 89,
    ASK_REGISTERS_HOST_MEMORY = 90,
    ASK_FLUSH_MEMORY_CONTROL = 10005,
    ASK_FLUSH_REGISTER_CONTROL = 10006,
    ASK_LARGE_BAR = 10011,
    ASK_STREAM_WAIT = 10013,
    ASK_PHYSICAL_UNITS = 10015,
    ASK_FINE_GRAIN = 10016,
    ASK_WALL_CLOCK_RATE = 10017,
    ASK_XCCS = 10018
};

/* hipPointer_attribute */
enum {
    POINTER_MEMORY_TYPE = 2,
    POINTER_SYNC_MEMOPS = 6,
    POINTER_BUFFER_ID = 7,
    POINTER_DEVICE = 9,
    POINTER_LEGACY_IPC = 10
};

#endif
