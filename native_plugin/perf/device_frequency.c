#include "device_frequency.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* nvmlClockType_t of nvml.h. */
enum { NVML_CLOCK_SM = 1 };

static void *device; /* of NVML */
static int (*clock_of)(void *device, int type, unsigned *mhz);
static char sensor[PATH_MAX];

static void open_nvml(const char *bus)
{
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (nvml == NULL)
        return;
    int (*init)(void) = (int (*)(void))dlsym(nvml, "nvmlInit_v2");
    int (*find)(const char *, void **) =
        (int (*)(const char *, void **))dlsym(nvml, "nvmlDeviceGetHandleByPciBusId_v2");
    clock_of = (int (*)(void *, int, unsigned *))dlsym(nvml, "nvmlDeviceGetClockInfo");
    if (init == NULL || find == NULL || clock_of == NULL || init() != 0 || find(bus, &device) != 0)
        device = NULL;
}

void device_frequency_open(const char *bus)
{
    char pattern[PATH_MAX];
    glob_t found;
    snprintf(pattern, sizeof pattern, "/sys/bus/pci/devices/%s/hwmon/hwmon*/freq1_input", bus);
    if (glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0)
        snprintf(sensor, sizeof sensor, "%s", found.gl_pathv[0]);
    globfree(&found);
    if (*sensor == '\0')
        open_nvml(bus);
}

int device_frequency_mhz(void)
{
    unsigned mhz = 0;
    if (device != NULL)
        return clock_of(device, NVML_CLOCK_SM, &mhz) == 0 ? (int)mhz : -1;
    FILE *file = *sensor != '\0' ? fopen(sensor, "re") : NULL;
    long long hz = -1;
    if (file != NULL) {
        if (fscanf(file, "%lld", &hz) != 1)
            hz = -1;
        fclose(file);
    }
    return hz > 0 ? (int)(hz / 1000000) : -1;
}
