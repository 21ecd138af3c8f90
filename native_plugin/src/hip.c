#include "hip.h"

#include "loaded.h"

#include <stddef.h>
#include <string.h>

enum {
    MAX_RUNTIMES = 4,
    /* hipDeviceAttributeMultiprocessorCount: 63 in hip_runtime_api.h of ROCm 5, 6 and 7. */
    HIP_ATTRIBUTE_CU_COUNT = 63,
};

typedef int (*hip_get_device)(int *device);
typedef int (*hip_get_bus_id)(char *bus_id, int size, int device);
typedef int (*hip_get_attribute)(int *value, int attribute, int device);

static bool ask(const struct loaded_object *object, struct hip_device *device)
{
    int current = -1;
    int n_cus = 0;
    /* ISO C has no cast from object to function pointers; POSIX systems have, and memcpy says so.
     */
    const void *addresses[3] = {loaded_function(object, "hipGetDevice"),
                                loaded_function(object, "hipDeviceGetPCIBusId"),
                                loaded_function(object, "hipDeviceGetAttribute")};
    hip_get_device get_device;
    hip_get_bus_id get_bus_id;
    hip_get_attribute get_attribute;
    memcpy(&get_device, &addresses[0], sizeof get_device);
    memcpy(&get_bus_id, &addresses[1], sizeof get_bus_id);
    memcpy(&get_attribute, &addresses[2], sizeof get_attribute);
    *device = (struct hip_device){.n_cus = 0};
    if (get_device == NULL || get_bus_id == NULL || get_device(&current) != 0 ||
        get_bus_id(device->bus_id, (int)sizeof device->bus_id, current) != 0) {
        return false;
    }
    device->bus_id[sizeof device->bus_id - 1] = '\0';
    if (get_attribute != NULL && get_attribute(&n_cus, HIP_ATTRIBUTE_CU_COUNT, current) == 0 &&
        n_cus > 0) {
        device->n_cus = (uint32_t)n_cus;
    }
    return true;
}

enum hip_status hip_current_device(struct hip_device *device)
{
    struct loaded_object runtimes[MAX_RUNTIMES];
    struct hip_device other;
    bool known = false;
    *device = (struct hip_device){.n_cus = 0};
    unsigned n_runtimes = loaded_named("libamdhip64", runtimes, MAX_RUNTIMES);
    for (unsigned i = 0; i < n_runtimes; i++) {
        if (!ask(&runtimes[i], &other)) {
            continue;
        }
        if (known && strcmp(other.bus_id, device->bus_id) != 0) {
            return HIP_AMBIGUOUS;
        }
        *device = other;
        known = true;
    }
    return known ? HIP_OK : n_runtimes > 0 ? HIP_FAILED : HIP_NOT_LOADED;
}
