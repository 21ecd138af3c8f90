/* Our numbers against AMD's own headers, where somebody has them (RCCLTUNE_HIP_HEADERS). */
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>
#include <stdio.h>

#include "hip_abi.h"

#define SAME(ours, theirs)   _Static_assert((long)(ours) == (long)(theirs), #ours " is not " #theirs)
#define MEMBER(ours, member) SAME(ours, offsetof(hipDeviceProp_tR0600, member))

SAME(HIP_INVALID_VALUE, hipErrorInvalidValue);
SAME(HIP_OUT_OF_MEMORY, hipErrorOutOfMemory);
SAME(HIP_INVALID_DEVICE, hipErrorInvalidDevice);
SAME(HIP_ILLEGAL_STATE, hipErrorIllegalState);
SAME(HIP_CAPTURE_UNSUPPORTED, hipErrorStreamCaptureUnsupported);
SAME(HIP_CAPTURE_UNMATCHED, hipErrorStreamCaptureUnmatched);
SAME(HIP_CAPTURED_EVENT, hipErrorCapturedEvent);
SAME(CAPTURE_NONE, hipStreamCaptureStatusNone);
SAME(CAPTURE_ACTIVE, hipStreamCaptureStatusActive);
SAME(CAPTURE_DEPENDENCIES_SET, hipStreamSetCaptureDependencies);
SAME(USER_OBJECT_MOVE, hipGraphUserObjectMove);
SAME(sizeof(struct hip_host_work), sizeof(hipHostNodeParams));
SAME(offsetof(struct hip_host_work, data), offsetof(hipHostNodeParams, userData));
SAME(HIP_NOT_FOUND, hipErrorNotFound);
SAME(HIP_NOT_SUPPORTED, hipErrorNotSupported);
SAME(HIP_MEMORY_HOST, hipMemoryTypeHost);
SAME(HIP_MEMORY_DEVICE, hipMemoryTypeDevice);
SAME(PROPERTIES_BYTES, sizeof(hipDeviceProp_tR0600));
MEMBER(AT_NAME, name);
MEMBER(AT_UUID, uuid);
MEMBER(AT_GLOBAL_MEMORY, totalGlobalMem);
MEMBER(AT_SHARED_A_BLOCK, sharedMemPerBlock);
MEMBER(AT_REGISTERS_A_BLOCK, regsPerBlock);
MEMBER(AT_WARP_SIZE, warpSize);
MEMBER(AT_THREADS_A_BLOCK, maxThreadsPerBlock);
MEMBER(AT_THREADS_DIM, maxThreadsDim);
MEMBER(AT_GRID_SIZE, maxGridSize);
MEMBER(AT_CLOCK_RATE, clockRate);
MEMBER(AT_MAJOR, major);
MEMBER(AT_MINOR, minor);
MEMBER(AT_COMPUTE_UNITS, multiProcessorCount);
MEMBER(AT_MAPS_HOST_MEMORY, canMapHostMemory);
MEMBER(AT_CONCURRENT_KERNELS, concurrentKernels);
MEMBER(AT_PCI_BUS, pciBusID);
MEMBER(AT_PCI_DEVICE, pciDeviceID);
MEMBER(AT_UNIFIED_ADDRESSING, unifiedAddressing);
MEMBER(AT_THREADS_A_UNIT, maxThreadsPerMultiProcessor);
MEMBER(AT_SHARED_A_UNIT, sharedMemPerMultiprocessor);
MEMBER(AT_REGISTERS_A_UNIT, regsPerMultiprocessor);
MEMBER(AT_HOST_ATOMICS, hostNativeAtomicSupported);
MEMBER(AT_COOPERATIVE_LAUNCH, cooperativeLaunch);
MEMBER(AT_ARCH_NAME, gcnArchName);
MEMBER(AT_MAX_SHARED_A_UNIT, maxSharedMemoryPerMultiProcessor);
MEMBER(AT_CLOCK_INSTRUCTION_RATE, clockInstructionRate);
MEMBER(AT_ARCH_FEATURES, arch);
MEMBER(AT_LARGE_BAR, isLargeBar);
MEMBER(AT_REVISION, asicRevision);
SAME(ASK_MAPS_HOST_MEMORY, hipDeviceAttributeCanMapHostMemory);
SAME(ASK_CLOCK_RATE, hipDeviceAttributeClockRate);
SAME(ASK_COOPERATIVE_LAUNCH, hipDeviceAttributeCooperativeLaunch);
SAME(ASK_MAJOR, hipDeviceAttributeComputeCapabilityMajor);
SAME(ASK_THREADS_A_BLOCK, hipDeviceAttributeMaxThreadsPerBlock);
SAME(ASK_MINOR, hipDeviceAttributeComputeCapabilityMinor);
SAME(ASK_COMPUTE_UNITS, hipDeviceAttributeMultiprocessorCount);
SAME(ASK_PCI_BUS, hipDeviceAttributePciBusId);
SAME(ASK_PCI_DEVICE, hipDeviceAttributePciDeviceId);
SAME(ASK_PCI_DOMAIN, hipDeviceAttributePciDomainId);
SAME(ASK_SHARED_A_BLOCK, hipDeviceAttributeMaxSharedMemoryPerBlock);
SAME(ASK_SHARED_OPT_IN, hipDeviceAttributeSharedMemPerBlockOptin);
SAME(ASK_SHARED_A_UNIT, hipDeviceAttributeSharedMemPerMultiprocessor);
SAME(ASK_UNIFIED_ADDRESSING, hipDeviceAttributeUnifiedAddressing);
SAME(ASK_WARP_SIZE, hipDeviceAttributeWarpSize);
SAME(ASK_MEMORY_POOLS, hipDeviceAttributeMemoryPoolsSupported);
SAME(ASK_VIRTUAL_MEMORY, hipDeviceAttributeVirtualMemoryManagementSupported);
SAME(ASK_REGISTERS_HOST_MEMORY, hipDeviceAttributeHostRegisterSupported);
SAME(ASK_FLUSH_MEMORY_CONTROL, hipDeviceAttributeHdpMemFlushCntl);
SAME(ASK_FLUSH_REGISTER_CONTROL, hipDeviceAttributeHdpRegFlushCntl);
SAME(ASK_LARGE_BAR, hipDeviceAttributeIsLargeBar);
SAME(ASK_STREAM_WAIT, hipDeviceAttributeCanUseStreamWaitValue);
SAME(ASK_PHYSICAL_UNITS, hipDeviceAttributePhysicalMultiProcessorCount);
SAME(ASK_FINE_GRAIN, hipDeviceAttributeFineGrainSupport);
SAME(ASK_WALL_CLOCK_RATE, hipDeviceAttributeWallClockRate);
SAME(ASK_XCCS, hipDeviceAttributeNumberOfXccs);
SAME(POINTER_MEMORY_TYPE, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(POINTER_SYNC_MEMOPS, HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS);
SAME(POINTER_BUFFER_ID, HIP_POINTER_ATTRIBUTE_BUFFER_ID);
SAME(POINTER_DEVICE, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(POINTER_LEGACY_IPC, HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE);
SAME(sizeof(struct hip_pointer_attributes), sizeof(hipPointerAttribute_t));
SAME(offsetof(struct hip_pointer_attributes, device_pointer),
     offsetof(hipPointerAttribute_t, devicePointer));
SAME(sizeof(struct hip_function_attributes), sizeof(hipFuncAttributes));
SAME(offsetof(struct hip_function_attributes, registers), offsetof(hipFuncAttributes, numRegs));
SAME(sizeof(struct hip_ipc_handle), sizeof(hipIpcMemHandle_t));
SAME(sizeof(struct hip_dim3), sizeof(dim3));

int main(void)
{
    return 0;
}
