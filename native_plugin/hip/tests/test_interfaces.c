/* What RCCL asks of the stand-in runtime beside memory and launches: devices one by one, the links
 * that rocm_smi tells of, NICs, and the profiler by which it says what it runs. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "interfaces.h"
#include "machine.h"

int hipDeviceSynchronize(void);
int hipStreamSynchronize(void *);
int hipStreamDestroy(void *);
int hipStreamCreateWithFlags(void **, unsigned);
int hipMemGetInfo(size_t *, size_t *);
int hipFree(void *);
int hipGetDevice(int *);
int hipSetDevice(int);
int hipDeviceGet(int *, int);
int hipCtxGetCurrent(void **);
int hipDeviceCanAccessPeer(int *, int, int);
int hipDeviceEnablePeerAccess(int, unsigned);
int hipDeviceGetPCIBusId(char *, int, int);
int hipDeviceGetAttribute(int *, int, int);
int hipDriverGetVersion(int *);
int hipRuntimeGetVersion(int *);
const char *hipGetErrorString(int);
int hipEventCreate(void **);
int hipEventDestroy(void *);
int hipEventRecord(void *, void *);
int hipEventSynchronize(void *);
int hipEventElapsedTime(float *, void *, void *);
int hipExtLaunchKernel(const void *, struct hip_dim3, struct hip_dim3, void **, size_t, void *,
                       void *, void *, int);
int hipMalloc(void **, size_t);
int hipExtMallocWithFlags(void **, size_t, unsigned);
int hipMallocFromPoolAsync(void **, size_t, void *, void *);
int hipMemcpyAsync(void *, const void *, size_t, int, void *);
int hipMemsetAsync(void *, int, size_t, void *);
int hipHostGetDevicePointer(void **, void *, unsigned);
int hipPointerGetAttribute(void *, int, void *);
int rsmi_topo_get_link_type(uint32_t, uint32_t, uint64_t *, int *);
int rsmi_dev_firmware_version_get(uint32_t, int, uint64_t *);
int rsmi_status_string(int, const char **);

static void set_node(int devices, int per_oam)
{
    struct hip_node node = {.n_devices = devices,
                            .per_oam = per_oam,
                            .compute_units = 304 / per_oam,
                            .memory_mib = 196608 / per_oam,
                            .arch = "gfx942",
                            .has_nics = true};
    rccltune_hip_devices(&node);
}

static int attribute(int which)
{
    int value = -1;
    CHECK(hipDeviceGetAttribute(&value, which, 9) == HIP_OK);
    return value;
}

/* A partition of an MI300X: 38 units of an OAM whose second device it is; what it lacks is 0. */
static void test_devices(void)
{
    char bus[16];
    int value = -1;
    void *context = NULL, *register_of_none = &value;
    set_node(64, 8);
    CHECK(attribute(ASK_COMPUTE_UNITS) == 38 && attribute(ASK_XCCS) == 1);
    CHECK(attribute(ASK_MAJOR) == 9 && attribute(ASK_MINOR) == 4 && attribute(ASK_WARP_SIZE) == 64);
    CHECK(attribute(ASK_PCI_BUS) == 0x22 && attribute(ASK_PCI_DOMAIN) == 0);
    CHECK(attribute(ASK_THREADS_A_BLOCK) == 1024 && attribute(ASK_SHARED_A_BLOCK) == 65536);
    CHECK(attribute(ASK_CLOCK_RATE) == 2100000 && attribute(ASK_WALL_CLOCK_RATE) == 100000);
    CHECK(attribute(ASK_FINE_GRAIN) == 1 && attribute(ASK_VIRTUAL_MEMORY) == 0);
    CHECK(hipDeviceGetAttribute((int *)&register_of_none, ASK_FLUSH_MEMORY_CONTROL, 0) == HIP_OK);
    CHECK(register_of_none == NULL);
    CHECK(hipDeviceGetAttribute(&value, ASK_MAJOR, 64) == HIP_INVALID_DEVICE);
    CHECK(hipDeviceGet(&value, 63) == HIP_OK && value == 63);
    CHECK(hipDeviceGet(&value, 64) == HIP_INVALID_DEVICE);
    CHECK(hipSetDevice(5) == HIP_OK && hipGetDevice(&value) == HIP_OK && value == 5);
    CHECK(hipCtxGetCurrent(&context) == HIP_OK && context != NULL);
    CHECK(hipDeviceCanAccessPeer(&value, 0, 1) == HIP_OK && value == 1);
    CHECK(hipDeviceCanAccessPeer(&value, 1, 1) == HIP_OK && value == 0);
    CHECK(hipDeviceEnablePeerAccess(7, 0) == HIP_OK);
    CHECK(hipDeviceEnablePeerAccess(64, 0) == HIP_INVALID_DEVICE);
    CHECK(hipDeviceGetPCIBusId(bus, 4, 0) == HIP_INVALID_VALUE);
    CHECK(hipDeviceGetPCIBusId(bus, sizeof bus, 64) == HIP_INVALID_DEVICE);
    CHECK(hipDriverGetVersion(&value) == HIP_OK && value / 10000000 == 7);
    CHECK(hipRuntimeGetVersion(&value) == HIP_OK && value / 10000000 == 7);
    CHECK(strcmp(hipGetErrorString(HIP_OK), "no error") == 0);
    CHECK(strstr(hipGetErrorString(HIP_NOT_SUPPORTED), "not supported") != NULL);
}

/* Each device is linked to each other by one hop of XGMI (type 2). */
static void test_links(void)
{
    uint64_t hops = 0, version = 0;
    int type = 0;
    const char *text = NULL;
    CHECK(rsmi_topo_get_link_type(0, 63, &hops, &type) == 0 && hops == 1 && type == 2);
    CHECK(rsmi_dev_firmware_version_get(0, 0, &version) == 0 && version > 0);
    CHECK(rsmi_status_string(0, &text) == 0 && strcmp(text, "success") == 0);
    CHECK(rsmi_status_string(1, &text) == 0 && strstr(text, "error") != NULL);
}

/* One an OAM, whatever it is parted into, and in the topology that RCCL reads. */
static void test_nics(void)
{
    int n = 0;
    set_node(64, 8);
    CHECK(ncclNetPlugin_v8.init(NULL) == 0 && ncclNetPlugin_v8.devices(&n) == 0 && n == 8);
    set_node(4, 1);
    CHECK(ncclNetPlugin_v8.devices(&n) == 0 && n == 4);
    char *text = rccltune_hip_topology();
    CHECK(text != NULL && strstr(text, "<net name=\"sim3\"") != NULL);
    free(text);
}

/* RCCL waits for each transfer until its request is done: it is so at once, and nothing moved. */
static void test_transfers(void)
{
    void *listener = NULL, *sending = NULL, *receiving = NULL, *memory = NULL, *none = NULL;
    void *request = NULL, *data[1] = {"unchanged"}, *memories[1];
    char handle[128] = "";
    int sizes[1] = {10}, tags[1] = {0}, done = 0;
    CHECK(ncclNetPlugin_v8.listen(0, handle, &listener) == 0 && listener != NULL);
    CHECK(ncclNetPlugin_v8.connect(1, handle, &sending, &none) == 0 && sending != NULL);
    CHECK(ncclNetPlugin_v8.accept(listener, &receiving, &none) == 0 && receiving != NULL);
    CHECK(ncclNetPlugin_v8.register_memory(sending, data[0], 10, 2, &memory) == 0);
    CHECK(ncclNetPlugin_v8.register_file(receiving, data[0], 10, 2, 0, -1, memories) == 0);
    CHECK(ncclNetPlugin_v8.send(sending, data[0], 10, 0, memory, &request) == 0);
    CHECK(request != NULL && ncclNetPlugin_v8.test(request, &done, sizes) == 0 && done == 1);
    request = NULL;
    done = 0;
    CHECK(ncclNetPlugin_v8.receive(receiving, 1, data, sizes, tags, memories, &request) == 0);
    CHECK(request != NULL && ncclNetPlugin_v8.test(request, &done, sizes) == 0 && done == 1);
    CHECK(ncclNetPlugin_v8.flush(receiving, 1, data, sizes, memories, &request) == 0);
    CHECK(request == NULL && strcmp(data[0], "unchanged") == 0);
    CHECK(ncclNetPlugin_v8.forget_memory(sending, memory) == 0);
    CHECK(ncclNetPlugin_v8.close_send(sending) == 0);
    CHECK(ncclNetPlugin_v8.close_receive(receiving) == 0);
    CHECK(ncclNetPlugin_v8.close_listen(listener) == 0);
}

/* What the library says of a rank's collectives is that device's, in its order; groups are none. */
static void test_profiler(void)
{
    struct descriptor group = {.type = EVENT_GROUP}, pair = {.type = EVENT_POINT_TO_POINT};
    struct descriptor collective = {.type = EVENT_COLLECTIVE,
                                    .of.collective = {.algorithm = "RING", .protocol = "LL128"}};
    void *context = NULL, *event = NULL;
    struct hip_ran ran;
    int mask = 0;
    set_node(8, 1);
    hipSetDevice(6);
    CHECK(ncclProfiler_v4.start(&context, &mask, "c", 1, 1, 8, 6, NULL) == 0);
    CHECK(mask == (EVENT_COLLECTIVE | EVENT_POINT_TO_POINT));
    hipSetDevice(0); /* whoever launches */
    CHECK(ncclProfiler_v4.start_event(context, &event, &group) == 0 && event != NULL);
    for (int i = 0; i < 200; i++) {
        collective.of.collective.channels = (uint8_t)i;
        CHECK(ncclProfiler_v4.start_event(context, &event, &collective) == 0);
        CHECK(ncclProfiler_v4.record_state(event, 0, NULL) == 0);
        CHECK(ncclProfiler_v4.stop_event(event) == 0);
    }
    CHECK(ncclProfiler_v4.start_event(context, &event, &pair) == 0);
    rccltune_hip_ran(6, 150, &ran);
    CHECK(ran.n_collectives == 200 && ran.n_point_to_point == 1 && ran.n_launches == 0);
    CHECK(ran.channels == 150 && strcmp(ran.algorithm, "RING") == 0);
    CHECK(strcmp(ran.protocol, "LL128") == 0 && strcmp(ran.kernel, "") == 0);
    rccltune_hip_ran(6, 200, &ran);
    CHECK(ran.channels == 0 && strcmp(ran.algorithm, "") == 0);
    rccltune_hip_ran(0, 0, &ran);
    CHECK(ran.n_collectives == 0);
    rccltune_hip_forget(6);
    rccltune_hip_ran(6, 0, &ran);
    CHECK(ran.n_collectives == 0 && strcmp(ran.algorithm, "") == 0);
    CHECK(ncclProfiler_v4.finalize(context) == 0);
}

/* Events around a kernel: time goes on with launches, and never back. */
static void test_clock(void)
{
    void *before = NULL, *after = NULL;
    float ms = -1;
    hipEventCreate(&before);
    hipEventCreate(&after);
    CHECK(hipExtLaunchKernel(NULL, (struct hip_dim3){1, 1, 1}, (struct hip_dim3){64, 1, 1}, NULL, 0,
                             NULL, before, after, 0) == HIP_OK);
    CHECK(hipEventSynchronize(after) == HIP_OK);
    CHECK(hipEventElapsedTime(&ms, before, after) == HIP_OK && ms > 0);
    hipEventDestroy(before);
    hipEventDestroy(after);
}

/* Every way to memory gives memory of the current device, filled and copied as it is asked. */
static void test_memory(void)
{
    void *plain = NULL, *flagged = NULL, *pooled = NULL, *same = NULL;
    int device = -1, legacy = 0;
    unsigned type = 0;
    uint64_t first = 0, second = 0;
    set_node(8, 1);
    hipSetDevice(2);
    CHECK(hipMalloc(&plain, 64) == HIP_OK && hipExtMallocWithFlags(&flagged, 64, 1) == HIP_OK);
    CHECK(hipMallocFromPoolAsync(&pooled, 64, NULL, NULL) == HIP_OK);
    CHECK(hipMemsetAsync(plain, 7, 64, NULL) == HIP_OK);
    CHECK(hipMemcpyAsync(pooled, plain, 64, 4, NULL) == HIP_OK && ((char *)pooled)[63] == 7);
    CHECK(hipHostGetDevicePointer(&same, plain, 0) == HIP_OK && same == plain);
    CHECK(hipPointerGetAttribute(&device, POINTER_DEVICE, flagged) == HIP_OK && device == 2);
    CHECK(hipPointerGetAttribute(&type, POINTER_MEMORY_TYPE, flagged) == HIP_OK);
    CHECK(type == HIP_MEMORY_DEVICE);
    CHECK(hipPointerGetAttribute(&legacy, POINTER_LEGACY_IPC, flagged) == HIP_OK && legacy == 1);
    CHECK(hipPointerGetAttribute(&first, POINTER_BUFFER_ID, plain) == HIP_OK);
    CHECK(hipPointerGetAttribute(&second, POINTER_BUFFER_ID, (char *)pooled + 1) == HIP_OK);
    CHECK(first != second);
    CHECK(hipPointerGetAttribute(&device, POINTER_DEVICE, &device) == HIP_INVALID_VALUE);
}

static char *moved; /* by what is deferred */

static void move(void *data)
{
    memcpy(moved, data, 4);
}

static void end(void *data)
{
    ((char *)data)[4]++;
}

/* What moves data is done when its stream is waited for, and what comes behind it then, too. */
static void test_deferred(void)
{
    char words[] = "abc\0\0", host[4] = "xyz", seen[4] = "", *plain = NULL;
    void *stream = NULL, *large = NULL;
    size_t available = 0, after = 0, total = 0;
    set_node(8, 1);
    hipSetDevice(1);
    CHECK(hipMalloc((void **)&plain, 64) == HIP_OK);
    CHECK(hipMemGetInfo(&available, &total) == HIP_OK && total == (size_t)192 << 30);
    CHECK(hipMalloc(&large, total) == HIP_OUT_OF_MEMORY);
    CHECK(hipMalloc(&large, (size_t)40 << 30) == HIP_OK);
    CHECK(hipMemGetInfo(&after, &total) == HIP_OK && available - after == (size_t)40 << 30);
    CHECK(hipFree(large) == HIP_OK);
    CHECK(hipStreamCreateWithFlags(&stream, 1) == HIP_OK);
    moved = plain;
    CHECK(rccltune_machine_defer(stream, move, end, words) == HIP_OK);
    CHECK(hipMemcpyAsync(seen, plain, 4, 2, stream) == HIP_OK);
    CHECK(hipMemcpyAsync(plain + 8, host, 4, 1, stream) == HIP_OK);
    CHECK(hipMemsetAsync(plain, 7, 4, stream) == HIP_OK);
    host[0] = 'n'; /* too late */
    CHECK(plain[0] == 0 && seen[0] == '\0' && words[4] == 0);
    CHECK(hipStreamSynchronize(stream) == HIP_OK);
    CHECK(strcmp(seen, "abc") == 0 && strcmp(plain + 8, "xyz") == 0 && plain[0] == 7);
    CHECK(words[4] == 1);
    CHECK(rccltune_machine_defer(stream, move, end, words) == HIP_OK);
    CHECK(hipDeviceSynchronize() == HIP_OK && words[4] == 2);
    CHECK(rccltune_machine_defer(stream, move, end, words) == HIP_OK);
    plain[0] = 0;
    CHECK(hipStreamDestroy(stream) == HIP_OK && words[4] == 3 && plain[0] == 0);
    int file = -1;
    size_t at = 0;
    CHECK(rccltune_machine_memory(plain + 8, 8, &file, &at) && file >= 0);
    CHECK(!rccltune_machine_memory(plain, 128, &file, &at) &&
          !rccltune_machine_memory(host, 4, &file, &at));
    rccltune_machine_clear(plain, 64);
    CHECK(plain[8] == 0);
}

int main(void)
{
    test_deferred();
    test_devices();
    test_links();
    test_nics();
    test_transfers();
    test_profiler();
    test_clock();
    test_memory();
    return check_failures != 0;
}
