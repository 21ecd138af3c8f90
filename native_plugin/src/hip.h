/*
 * The HIP device that is current in this thread, asked of a HIP runtime that is already loaded.
 *
 * Nothing is linked and nothing is loaded: a plugin that pulled in a second runtime would break the
 * job that it serves.  init runs with the communicator's device current (RCCL 2.28.3 src/init.cc),
 * so "current" is "ours".
 */
#ifndef RCCLTUNE_HIP_H
#define RCCLTUNE_HIP_H

#include <stdbool.h>
#include <stdint.h>

struct hip_device {
    char bus_id[32]; /* as hipDeviceGetPCIBusId writes it, 0000:05:00.0 */
    uint32_t n_cus;  /* 0 where it could not be read */
};

/* Outcome of the question. */
enum hip_status {
    HIP_OK,
    HIP_NOT_LOADED, /* no HIP runtime in this process */
    HIP_FAILED,     /* a runtime is there but names no current device */
    HIP_AMBIGUOUS,  /* two runtimes are loaded and name different devices */
};

/* Asks for the current device. */
enum hip_status hip_current_device(struct hip_device *device);

#endif
