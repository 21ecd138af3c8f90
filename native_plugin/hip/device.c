/* Devices: how many, what they are like, where they are. */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../sim/visible.h"

static struct hip_node the_node;
static int visible[MAX_RANKS], n_visible;
static _Thread_local int current, last_error; /* as this process counts its devices */
/* PCI buses of the eight OAMs of an MI300X board, as published topologies show them. */
static const int bus_of_oam[HIP_MAX_OAMS] = {0x0c, 0x22, 0x38, 0x5c, 0x9f, 0xaf, 0xbf, 0xdf};

void hip_set_devices(const struct hip_node *node, bool may_be_hidden)
{
    the_node = *node;
    n_visible = node->n_devices;
    for (int i = 0; i < n_visible; i++)
        visible[i] = i;
    if (may_be_hidden)
        n_visible = visible_devices(n_visible, visible);
}

const struct hip_node *hip_node(void)
{
    hip_machine();
    return &the_node;
}

int hip_current(void)
{
    hip_machine();
    return current < n_visible ? visible[current] : 0;
}

int hip_ordinal(int device)
{
    for (int i = 0; i < n_visible; i++) {
        if (visible[i] == device)
            return i;
    }
    return -1;
}

int hip_fail(int error)
{
    last_error = error;
    return error;
}

int hip_unmade(const char *name)
{
    fprintf(stderr, "rccltune's stand-in HIP runtime has no %s: the call fails\n", name);
    return hip_fail(HIP_NOT_SUPPORTED);
}

void rccltune_hip_address(int device, int *bus, int *function)
{
    *bus = bus_of_oam[device / hip_node()->per_oam % HIP_MAX_OAMS];
    *function = device % hip_node()->per_oam;
}

int rccltune_hip_count(void)
{
    return hip_node()->n_devices;
}

bool rccltune_hip_is_parted(void)
{
    return hip_node()->per_oam > 1;
}

static bool is_device(int device)
{
    hip_machine();
    return device >= 0 && device < n_visible;
}

EXPORT int hipGetDeviceCount(int *count)
{
    hip_machine();
    *count = n_visible;
    return n_visible > 0 ? HIP_OK : hip_fail(HIP_NO_DEVICE);
}

EXPORT int hipGetDevice(int *device)
{
    *device = current;
    return HIP_OK;
}

EXPORT int hipSetDevice(int device)
{
    if (!is_device(device))
        return hip_fail(HIP_INVALID_DEVICE);
    current = device;
    return HIP_OK;
}

EXPORT int hipDeviceGet(int *device, int ordinal)
{
    if (!is_device(ordinal))
        return hip_fail(HIP_INVALID_DEVICE);
    *device = ordinal;
    return HIP_OK;
}

EXPORT int hipCtxGetCurrent(void **context)
{
    *context = (void *)(uintptr_t)(current + 1);
    return HIP_OK;
}

EXPORT int hipDeviceSetLimit(int limit, size_t value)
{
    (void)limit, (void)value;
    return HIP_OK;
}

EXPORT int hipDeviceCanAccessPeer(int *can, int device, int peer)
{
    *can = device != peer;
    return HIP_OK;
}

EXPORT int hipDeviceEnablePeerAccess(int peer, unsigned flags)
{
    (void)flags;
    return is_device(peer) ? HIP_OK : hip_fail(HIP_INVALID_DEVICE);
}

EXPORT int hipDeviceGetPCIBusId(char *text, int size, int device)
{
    int bus, function;
    if (!is_device(device) || size < 13)
        return hip_fail(is_device(device) ? HIP_INVALID_VALUE : HIP_INVALID_DEVICE);
    rccltune_hip_address(visible[device], &bus, &function);
    snprintf(text, (size_t)size, "0000:%02x:00.%x", (unsigned)bus, (unsigned)function);
    return HIP_OK;
}

EXPORT int hipDeviceGetByPCIBusId(int *device, const char *text)
{
    unsigned domain, wanted, slot, part;
    if (sscanf(text, "%x:%x:%x.%x", &domain, &wanted, &slot, &part) != 4)
        return hip_fail(HIP_INVALID_VALUE);
    hip_machine();
    for (int i = 0; i < n_visible; i++) {
        int bus, function;
        rccltune_hip_address(visible[i], &bus, &function);
        if (bus == (int)wanted && function == (int)part) {
            *device = i;
            return HIP_OK;
        }
    }
    return hip_fail(HIP_INVALID_DEVICE);
}

static void put_int(char *properties, int at, int value)
{
    memcpy(properties + at, &value, sizeof value);
}

static void put_size(char *properties, int at, size_t value)
{
    memcpy(properties + at, &value, sizeof value);
}

/* Kernels never run, so what concerns them alone need only be plausible. */
enum { THREADS_A_BLOCK = 1024, LDS_BYTES = 65536, REGISTERS = 65536, WAVE = 64 };
enum { CLOCK_KHZ = 2100000, WALL_CLOCK_KHZ = 100000, THREADS_A_UNIT = 2048 };

EXPORT int hipGetDevicePropertiesR0600(char *properties, int device)
{
    int bus, function;
    if (!is_device(device))
        return hip_fail(HIP_INVALID_DEVICE);
    rccltune_hip_address(visible[device], &bus, &function);
    memset(properties, 0, PROPERTIES_BYTES);
    snprintf(properties + AT_NAME, 256, "%s", hip_node()->product);
    snprintf(properties + AT_ARCH_NAME, 256, "%s:sramecc+:xnack-", hip_node()->arch);
    snprintf(properties + AT_UUID, 16, "%015x", (unsigned)visible[device]);
    put_size(properties, AT_GLOBAL_MEMORY, (size_t)hip_node()->memory_mib << 20);
    put_size(properties, AT_SHARED_A_BLOCK, LDS_BYTES);
    put_size(properties, AT_SHARED_A_UNIT, LDS_BYTES);
    put_size(properties, AT_MAX_SHARED_A_UNIT, LDS_BYTES);
    put_int(properties, AT_REGISTERS_A_BLOCK, REGISTERS);
    put_int(properties, AT_REGISTERS_A_UNIT, REGISTERS);
    put_int(properties, AT_WARP_SIZE, WAVE);
    put_int(properties, AT_THREADS_A_BLOCK, THREADS_A_BLOCK);
    put_int(properties, AT_THREADS_A_UNIT, THREADS_A_UNIT);
    for (int i = 0; i < 3; i++) {
        put_int(properties, AT_THREADS_DIM + 4 * i, THREADS_A_BLOCK);
        put_int(properties, AT_GRID_SIZE + 4 * i, i == 0 ? 2147483647 : 65536);
    }
    put_int(properties, AT_CLOCK_RATE, CLOCK_KHZ);
    put_int(properties, AT_CLOCK_INSTRUCTION_RATE, WALL_CLOCK_KHZ);
    put_int(properties, AT_MAJOR, 9);
    put_int(properties, AT_MINOR, 4);
    put_int(properties, AT_COMPUTE_UNITS, hip_node()->compute_units);
    put_int(properties, AT_PCI_BUS, bus);
    static const int yes[] = {AT_MAPS_HOST_MEMORY, AT_CONCURRENT_KERNELS, AT_UNIFIED_ADDRESSING,
                              AT_HOST_ATOMICS,     AT_COOPERATIVE_LAUNCH, AT_LARGE_BAR,
                              AT_REVISION};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        put_int(properties, yes[i], 1);
    put_int(properties, AT_ARCH_FEATURES, -1);
    return HIP_OK;
}

/* What is not asked for by name here is 0, as HIP has it for what a device cannot. */
static int attribute(int which, int device)
{
    int bus, function;
    rccltune_hip_address(visible[device], &bus, &function);
    switch (which) {
    case ASK_MAJOR:
        return 9;
    case ASK_MINOR:
        return 4;
    case ASK_COMPUTE_UNITS:
    case ASK_PHYSICAL_UNITS:
        return hip_node()->compute_units;
    case ASK_WARP_SIZE:
        return WAVE;
    case ASK_THREADS_A_BLOCK:
        return THREADS_A_BLOCK;
    case ASK_SHARED_A_BLOCK:
    case ASK_SHARED_OPT_IN:
    case ASK_SHARED_A_UNIT:
        return LDS_BYTES;
    case ASK_PCI_BUS:
        return bus;
    case ASK_CLOCK_RATE:
        return CLOCK_KHZ;
    case ASK_WALL_CLOCK_RATE:
        return WALL_CLOCK_KHZ;
    case ASK_XCCS:
        return HIP_MAX_OAMS / hip_node()->per_oam;
    case ASK_FINE_GRAIN:
    case ASK_LARGE_BAR:
    case ASK_MAPS_HOST_MEMORY:
    case ASK_UNIFIED_ADDRESSING:
    case ASK_REGISTERS_HOST_MEMORY:
    case ASK_COOPERATIVE_LAUNCH:
    case ASK_STREAM_WAIT:
    case ASK_MEMORY_POOLS:
        return 1;
    default:
        return 0;
    }
}

EXPORT int hipDeviceGetAttribute(int *value, int which, int device)
{
    if (!is_device(device))
        return hip_fail(HIP_INVALID_DEVICE);
    /* These two are pointers, of a register that does not exist. */
    if (which == ASK_FLUSH_MEMORY_CONTROL || which == ASK_FLUSH_REGISTER_CONTROL)
        memset(value, 0, sizeof(void *));
    else
        *value = attribute(which, device);
    return HIP_OK;
}

enum { RUNTIME_VERSION = 70253211 }; /* HIP of ROCm 7.2.4 */

EXPORT int hipDriverGetVersion(int *version)
{
    *version = RUNTIME_VERSION;
    return HIP_OK;
}

EXPORT int hipRuntimeGetVersion(int *version)
{
    *version = RUNTIME_VERSION;
    return HIP_OK;
}

EXPORT int hipGetLastError(void)
{
    int error = last_error;
    last_error = HIP_OK;
    return error;
}

EXPORT const char *hipGetErrorString(int error)
{
    static const struct {
        int error;
        const char *text;
    } texts[] = {
        {HIP_OK, "no error"},
        {HIP_INVALID_VALUE, "invalid argument"},
        {HIP_OUT_OF_MEMORY, "out of memory"},
        {HIP_NO_DEVICE, "no ROCm-capable device is detected"},
        {HIP_INVALID_DEVICE, "invalid device ordinal"},
        {HIP_ILLEGAL_STATE, "the operation cannot be performed in the present state"},
        {HIP_NOT_FOUND, "named symbol not found"},
        {HIP_NOT_SUPPORTED, "operation not supported"},
        {HIP_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"},
        {HIP_CAPTURE_UNMATCHED, "the capture was not initiated in this stream"},
        {HIP_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing "
                             "stream"},
    };
    static _Thread_local char unknown[64];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i].error == error)
            return texts[i].text;
    }
    snprintf(unknown, sizeof unknown, "stand-in HIP error %d", error);
    return unknown;
}
