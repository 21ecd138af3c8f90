/* A stand-in libamd_smi for AMD's own Python bindings of 6.4 and 7.0, made for these tests. The
 * node is eight OAMs; SMI_STUB_STATE names a file that holds its mode, `CPX NPS4`, so that what
 * one process sets another one reads. SMI_STUB_CASE is one of primary-only, 63, no-perm, hang,
 * crash, refuse (every setter) and reset (a memory mode resets the compute mode, as a reload may).
 *
 * Struct layouts are the bindings' own (amdsmi_wrapper.py of 6.4.4 and 7.0.2).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = 2, NO_PERM = 10, BUSY = 30, OAMS = 8, XCDS = 8 };

static const char *const computes[] = {"?", "SPX", "DPX", "TPX", "QPX", "CPX"};
static const uint8_t buses[OAMS] = {0x05, 0x15, 0x65, 0x75, 0x85, 0x95, 0xe5, 0xf5};

static int is_case(const char *name)
{
    const char *value = getenv("SMI_STUB_CASE");
    return value != NULL && strcmp(value, name) == 0;
}

static void state(char compute[8], char memory[8])
{
    const char *path = getenv("SMI_STUB_STATE");
    FILE *file = path == NULL ? NULL : fopen(path, "r");
    if (file == NULL || fscanf(file, "%7s %7s", compute, memory) != 2) {
        strcpy(compute, "SPX");
        strcpy(memory, "NPS1");
    }
    if (file != NULL) {
        fclose(file);
    }
}

static int change(const char *compute, const char *memory)
{
    char now_compute[8];
    char now_memory[8];
    const char *path = getenv("SMI_STUB_STATE");
    state(now_compute, now_memory);
    FILE *file = path == NULL ? NULL : fopen(path, "w");
    if (is_case("refuse") || file == NULL) {
        return BUSY;
    }
    fprintf(file, "%s %s\n", compute == NULL ? now_compute : compute,
            memory == NULL ? now_memory : memory);
    fclose(file);
    return OK;
}

static uint32_t parts(void)
{
    char compute[8];
    char memory[8];
    state(compute, memory);
    return strcmp(compute, "CPX") == 0 ? 8 : strcmp(compute, "QPX") == 0 ? 4
         : strcmp(compute, "DPX") == 0 ? 2 : 1;
}

static uint32_t oam_of(void *handle)
{
    return (uint32_t)((uintptr_t)handle - 1) / XCDS;
}

static uint32_t part_of(void *handle)
{
    return (uint32_t)((uintptr_t)handle - 1) % XCDS;
}

int amdsmi_init(uint64_t flags)
{
    (void)flags;
    if (is_case("hang")) {
        sleep(600);
    }
    if (is_case("crash")) {
        abort();
    }
    puts("a line that the library prints on stdout");
    return OK;
}

int amdsmi_shut_down(void)
{
    return OK;
}

int amdsmi_get_socket_handles(uint32_t *count, void **handles)
{
    for (uintptr_t i = 0; handles != NULL && i < OAMS; i++) {
        handles[i] = (void *)(i * XCDS + 1);
    }
    *count = OAMS;
    return OK;
}

int amdsmi_get_processor_handles(void *socket, uint32_t *count, void **handles)
{
    uint32_t n = parts();
    if (is_case("63") && oam_of(socket) == OAMS - 1 && n == 8) {
        n = 7;
    }
    for (uint32_t i = 0; handles != NULL && i < n; i++) {
        handles[i] = (char *)socket + i;
    }
    *count = n;
    return OK;
}

int amdsmi_get_gpu_device_bdf(void *gpu, uint64_t *bdf)
{
    *bdf = (uint64_t)part_of(gpu) | (uint64_t)buses[oam_of(gpu)] << 8;
    return OK;
}

static int partition_text(void *gpu, char *text, uint32_t size, int wants_memory)
{
    char compute[8];
    char memory[8];
    if (is_case("no-perm")) {
        return NO_PERM;
    }
    if (is_case("primary-only") && part_of(gpu) != 0) {
        return NOT_SUPPORTED;
    }
    state(compute, memory);
    (void)snprintf(text, size, "%s", wants_memory ? memory : compute);
    return OK;
}

int amdsmi_get_gpu_compute_partition(void *gpu, char *text, uint32_t size)
{
    return partition_text(gpu, text, size, 0);
}

int amdsmi_get_gpu_memory_partition(void *gpu, char *text, uint32_t size)
{
    return partition_text(gpu, text, size, 1);
}

int amdsmi_set_gpu_compute_partition(void *gpu, int compute)
{
    return part_of(gpu) == 0 && compute >= 1 && compute <= 5 ? change(computes[compute], NULL)
                                                             : NOT_SUPPORTED;
}

int amdsmi_set_gpu_memory_partition(void *gpu, int memory)
{
    char text[8];
    (void)snprintf(text, sizeof text, "NPS%u", (unsigned)memory & 15U);
    return part_of(gpu) == 0 ? change(is_case("reset") ? "SPX" : NULL, text) : NOT_SUPPORTED;
}

int amdsmi_gpu_driver_reload(void)
{
    return OK;
}

int amdsmi_get_gpu_kfd_info(void *gpu, unsigned char info[64])
{
    uint32_t node = 2 + oam_of(gpu) * parts() + part_of(gpu);
    uint32_t part = part_of(gpu);
    memset(info, 0, 64);
    memcpy(info + 8, &node, sizeof node);
    memcpy(info + 12, &part, sizeof part);
    return OK;
}

int amdsmi_get_gpu_asic_info(void *gpu, unsigned char info[896])
{
    uint64_t device = 0x74a1;
    uint64_t gfx = 0x942;
    uint32_t cus = 304 / parts();
    (void)gpu;
    memset(info, 0, 896);
    strcpy((char *)info, "AMD Instinct MI300X");
    memcpy(info + 520, &device, sizeof device);
    memcpy(info + 792, &cus, sizeof cus);
    memcpy(info + 800, &gfx, sizeof gfx);
    return OK;
}

int amdsmi_get_gpu_topo_numa_affinity(void *gpu, int32_t *node)
{
    *node = oam_of(gpu) < OAMS / 2 ? 0 : -1;
    return OK;
}
