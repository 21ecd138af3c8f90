/* The frequency that a device runs at: what varies slowly between communicators is named by it. */
#ifndef RCCLTUNE_PERF_DEVICE_FREQUENCY_H
#define RCCLTUNE_PERF_DEVICE_FREQUENCY_H

/* Finds NVML, or the device's sensor in sysfs (amdgpu's, hwmon's freq1_input), or nothing.
 * `bus` is the device's PCI address, 0000:05:00.0. */
void device_frequency_open(const char *bus);

/* MHz, or -1 where nothing tells. */
int device_frequency_mhz(void);

#endif
