/* The stand-in runtime as its callers see it: devices, memory, handles between processes, launches.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "hip.h"
#include "resident.h"

int hipGetDeviceCount(int *);
int hipSetDevice(int);
int hipGetDevice(int *);
int hipDeviceGetPCIBusId(char *, int, int);
int hipDeviceGetByPCIBusId(int *, const char *);
int hipGetDevicePropertiesR0600(char *, int);
int hipDeviceGetAttribute(int *, int, int);
int hipGetLastError(void);
int hipMalloc(void **, size_t);
int hipFree(void *);
int hipHostMalloc(void **, size_t, unsigned);
int hipMemsetAsync(void *, int, size_t, void *);
int hipMemGetAddressRange(void **, size_t *, void *);
int hipPointerGetAttributes(struct hip_pointer_attributes *, const void *);
int hipPointerGetAttribute(void *, int, void *);
int hipIpcGetMemHandle(struct hip_ipc_handle *, void *);
int hipIpcOpenMemHandle(void **, struct hip_ipc_handle, unsigned);
int hipMemCreate(void);
int hipLaunchKernel(const void *, struct hip_dim3, struct hip_dim3, void **, size_t, void *);
void __hipRegisterFunction(void **, const void *, char *, const char *, unsigned, void *, void *,
                           void *, void *, int *);
int rsmi_num_monitor_devices(uint32_t *);
int rsmi_dev_pci_id_get(uint32_t, uint64_t *);
int rsmi_topo_get_link_weight(uint32_t, uint32_t, uint64_t *);

static void set_node(int devices, int per_oam)
{
    struct hip_node node = {.n_devices = devices,
                            .per_oam = per_oam,
                            .compute_units = 304 / per_oam,
                            .memory_mib = 196608 / per_oam,
                            .product = "AMD Instinct MI300X",
                            .arch = "gfx942"};
    rccltune_hip_devices(&node);
}

static void test_devices(void)
{
    char bus[16], properties[PROPERTIES_BYTES];
    int n = 0, device = -1, units = 0;
    set_node(64, 8);
    CHECK(hipGetDeviceCount(&n) == HIP_OK && n == 64);
    for (int d = 0; d < 64; d++) {
        CHECK(hipDeviceGetPCIBusId(bus, sizeof bus, d) == HIP_OK);
        CHECK(hipDeviceGetByPCIBusId(&device, bus) == HIP_OK && device == d);
    }
    CHECK(hipGetDevicePropertiesR0600(properties, 63) == HIP_OK);
    memcpy(&units, properties + AT_COMPUTE_UNITS, sizeof units);
    CHECK(units == 38);
    CHECK(strncmp(properties + AT_ARCH_NAME, "gfx942", 6) == 0);
    CHECK(hipDeviceGetAttribute(&units, ASK_XCCS, 0) == HIP_OK && units == 1);
    CHECK(hipSetDevice(64) == HIP_INVALID_DEVICE);
    CHECK(hipGetLastError() == HIP_INVALID_DEVICE && hipGetLastError() == HIP_OK);
    CHECK(hipGetDevicePropertiesR0600(properties, -1) == HIP_INVALID_DEVICE);
    CHECK(hipDeviceGetByPCIBusId(&device, "nonsense") == HIP_INVALID_VALUE);
    CHECK(hipDeviceGetByPCIBusId(&device, "0000:01:00.0") == HIP_INVALID_DEVICE);
}

static void test_smi(void)
{
    uint32_t n = 0;
    uint64_t id = 0, inside = 0, beyond = 0;
    set_node(64, 8);
    CHECK(rsmi_num_monitor_devices(&n) == 0 && n == 64);
    CHECK(rsmi_dev_pci_id_get(9, &id) == 0 && id == (0x22 << 8 | 1));
    rsmi_topo_get_link_weight(0, 7, &inside);
    rsmi_topo_get_link_weight(0, 8, &beyond);
    CHECK(inside < beyond);
}

static void test_memory(void)
{
    void *pointer = NULL, *host = NULL, *base = NULL;
    size_t size = 0, large = (size_t)8 << 30;
    struct hip_pointer_attributes attributes;
    set_node(8, 1);
    hipSetDevice(3);
    long before = resident_mib();
    CHECK(hipMalloc(&pointer, large) == HIP_OK);
    CHECK(hipMemsetAsync(pointer, 0, large, NULL) == HIP_OK);
    CHECK(resident_mib() - before < 16); /* what nobody touched costs nothing */
    ((char *)pointer)[large - 1] = 7;
    CHECK(hipMemGetAddressRange(&base, &size, (char *)pointer + 12345) == HIP_OK);
    CHECK(base == pointer && size == large);
    CHECK(hipPointerGetAttributes(&attributes, pointer) == HIP_OK);
    CHECK(attributes.device == 3 && attributes.type == HIP_MEMORY_DEVICE);
    CHECK(hipHostMalloc(&host, 100, 0) == HIP_OK);
    CHECK(hipPointerGetAttributes(&attributes, host) == HIP_OK);
    CHECK(attributes.type == HIP_MEMORY_HOST);
    CHECK(hipPointerGetAttributes(&attributes, &attributes) == HIP_INVALID_VALUE);
    CHECK(hipMemsetAsync((char *)pointer + 3, 0, large - 3, NULL) == HIP_OK);
    CHECK(((char *)pointer)[large - 1] == 0);
    CHECK(hipFree((char *)pointer + 1) == HIP_INVALID_VALUE);
    CHECK(hipFree(pointer) == HIP_OK && hipFree(pointer) == HIP_INVALID_VALUE);
    CHECK(hipMemGetAddressRange(&base, &size, pointer) == HIP_NOT_FOUND);
    CHECK(hipFree(NULL) == HIP_OK);
    CHECK(hipMalloc(&pointer, (size_t)2 << 40) == HIP_OUT_OF_MEMORY);
    CHECK(hipMalloc(&pointer, SIZE_MAX) == HIP_OUT_OF_MEMORY);
    int value = 0;
    CHECK(hipPointerGetAttribute(&value, 99, host) == HIP_NOT_SUPPORTED);
}

/* One process's memory, written by another. */
static void test_handles(void)
{
    struct hip_ipc_handle handle, nonsense = {{0}};
    void *pointer = NULL, *again = NULL;
    int status = -1;
    set_node(8, 1);
    hipSetDevice(1);
    CHECK(hipMalloc(&pointer, 1 << 20) == HIP_OK);
    CHECK(hipIpcGetMemHandle(&handle, pointer) == HIP_OK);
    CHECK(hipIpcOpenMemHandle(&again, handle, 0) == HIP_OK && again == pointer);
    CHECK(hipIpcOpenMemHandle(&again, nonsense, 0) == HIP_INVALID_VALUE);
    CHECK(hipIpcGetMemHandle(&handle, &handle) == HIP_INVALID_VALUE);
    CHECK(hipIpcGetMemHandle(&handle, pointer) == HIP_OK);
    pid_t child = fork();
    if (child == 0) {
        void *mapped = NULL;
        if (hipIpcOpenMemHandle(&mapped, handle, 0) != HIP_OK)
            _exit(1);
        ((char *)mapped)[4097] = 42;
        _exit(mapped == pointer); /* mapped anew, not inherited */
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(((char *)pointer)[4097] == 42);
}

static void *launch(void *argument)
{
    int device = (int)(intptr_t)argument;
    hipSetDevice(device);
    rccltune_hip_forget(device);
    for (int i = 0; i < 100; i++)
        hipLaunchKernel(launch, (struct hip_dim3){(uint32_t)device + 1, 1, 1},
                        (struct hip_dim3){256, 1, 1}, NULL, 0, NULL);
    return NULL;
}

/* Each device has its own note, whichever thread launches. */
static void test_launches(void)
{
    pthread_t threads[8];
    struct hip_ran ran;
    set_node(8, 1);
    __hipRegisterFunction(NULL, (const void *)(uintptr_t)launch, NULL, "kernel", 0, NULL, NULL,
                          NULL, NULL, NULL);
    for (int d = 0; d < 8; d++)
        pthread_create(&threads[d], NULL, launch, (void *)(intptr_t)d);
    for (int d = 0; d < 8; d++)
        pthread_join(threads[d], NULL);
    for (int d = 0; d < 8; d++) {
        rccltune_hip_ran(d, 99, &ran);
        CHECK(ran.n_launches == 100 && ran.grid == (unsigned)d + 1 && ran.n_collectives == 0);
        CHECK(strcmp(ran.kernel, "kernel") == 0);
    }
}

/* A device sees its own links: 7 of 8 GPUs, 63 of 64 partitions; no name of the machine's is in it.
 */
static void test_topology(void)
{
    for (int parted = 0; parted < 2; parted++) {
        int n = 0, devices = parted ? 64 : 8;
        set_node(devices, parted ? 8 : 1);
        hipSetDevice(5);
        char *text = rccltune_hip_topology();
        CHECK(text != NULL);
        for (char *at = text; text != NULL && (at = strstr(at, "<xgmi ")) != NULL; at++)
            n++;
        CHECK(n == devices - 1);
        CHECK(text != NULL && strstr(text, "<gpu dev=\"5\"") != NULL);
        free(text);
    }
}

/* Another board where it is asked for: of 64 partitions 7 links inside the OAM and 7 to others; two
 * links between any two. */
static void test_other_boards(void)
{
    static const struct {
        const char *links, *count;
        int n;
    } rows[] = {{"sparse", "count=\"1\"", 14}, {"double", "count=\"2\"", 63}};
    set_node(64, 8);
    hipSetDevice(5);
    for (int i = 0; i < 2; i++) {
        int n = 0;
        setenv("RCCLTUNE_HIP_LINKS", rows[i].links, 1);
        char *text = rccltune_hip_topology();
        for (char *at = text; at != NULL && (at = strstr(at, rows[i].count)) != NULL; at++)
            n++;
        CHECK(n == rows[i].n);
        free(text);
    }
    unsetenv("RCCLTUNE_HIP_LINKS");
}

int main(void)
{
    test_devices();
    test_smi();
    test_memory();
    test_handles();
    test_launches();
    test_topology();
    test_other_boards();
    CHECK(hipMemCreate() == HIP_NOT_SUPPORTED);
    return check_failures != 0;
}
