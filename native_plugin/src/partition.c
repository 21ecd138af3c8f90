/*
 * Facts: amdgpu puts current_compute_partition and current_memory_partition on the PCI device only
 * (Linux amdgpu_gfx.c, amdgpu_gmc.c); KFD's properties have simd_count, simd_per_cu, num_xcc,
 * gfx_target_version (major*10000 + minor*100 + step), device_id, domain and location_id, whose low
 * 16 bits are bus:device.function.  In CPX the function, or bits 28 to 31, number the partition
 * (capture of an MI300X in ROCm/k8s-device-plugin testdata/topo-mi300-cpx), so a GPU is known by
 * domain:bus:device.
 */
#include "partition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_GPUS = 1024, /* far beyond any node: 8 sockets of 8 partitions are 8 entries here */
    MAX_ATTRIBUTE = 256,
    MAX_PROPERTIES = 8192,
    FIRST_PARTITIONED_GFX = 90400, /* gfx940 … gfx942, then gfx950 */
    LAST_PARTITIONED_GFX = 90599,
};

/* One PCI device (an OAM), with all of its partitions. */
struct gpu {
    uint32_t domain;
    uint32_t slot;    /* bus and device: location without the function */
    uint32_t n_nodes; /* visible KFD nodes */
    uint32_t n_cus;   /* of the first visible node */
    uint32_t n_xccs;  /* of the first visible node */
    uint32_t gfx;     /* gfx_target_version */
    uint32_t device;  /* PCI device id */
    struct mode mode;
    bool contradictory; /* KFD and the driver disagree: a mode change under way */
};

struct survey {
    const struct sysroot *root;
    struct gpu *gpus;
    uint32_t n_gpus;
    uint32_t n_visible;
    uint32_t n_hidden;
    bool overflow;
};

/* The properties of a KFD node that matter here. */
struct node {
    uint64_t simd_count;
    uint64_t simd_per_cu;
    uint64_t num_xcc;
    uint64_t gfx_target_version;
    uint64_t device_id;
    uint64_t domain;
    uint64_t location_id;
};

static struct gpu *gpu_at(struct survey *survey, uint32_t domain, uint32_t slot)
{
    for (uint32_t i = 0; i < survey->n_gpus; i++) {
        if (survey->gpus[i].domain == domain && survey->gpus[i].slot == slot) {
            return &survey->gpus[i];
        }
    }
    return NULL;
}

static struct gpu *add_gpu(struct survey *survey, uint32_t domain, uint32_t slot)
{
    struct gpu *gpu = gpu_at(survey, domain, slot);
    if (gpu == NULL && survey->n_gpus < MAX_GPUS) {
        gpu = &survey->gpus[survey->n_gpus++];
        *gpu = (struct gpu){.domain = domain, .slot = slot};
    }
    survey->overflow = survey->overflow || gpu == NULL;
    return gpu;
}

/* Reads domain:bus:device.function, all hexadecimal. */
static bool parse_bus_id(struct text text, uint32_t *domain, uint32_t *slot)
{
    struct text parts[4];
    uint64_t values[4];
    if (!text_split(text, ':', &parts[0], &parts[1]) ||
        !text_split(parts[1], ':', &parts[1], &parts[2]) ||
        !text_split(parts[2], '.', &parts[2], &parts[3])) {
        return false;
    }
    for (size_t i = 0; i < 4; i++) {
        if (text_hex(parts[i], &values[i]) != TEXT_NUMBER_OK) {
            return false;
        }
    }
    if (values[0] > UINT32_MAX || values[1] > 0xff || values[2] > 0x1f || values[3] > 7) {
        return false;
    }
    *domain = (uint32_t)values[0];
    *slot = (uint32_t)(values[1] << 8 | values[2] << 3);
    return true;
}

static void read_properties(struct text content, struct node *node)
{
    const struct {
        const char *name;
        uint64_t *value;
    } wanted[] = {
        {"simd_count", &node->simd_count},   {"simd_per_cu", &node->simd_per_cu},
        {"num_xcc", &node->num_xcc},         {"gfx_target_version", &node->gfx_target_version},
        {"device_id", &node->device_id},     {"domain", &node->domain},
        {"location_id", &node->location_id},
    };
    struct text line;
    struct text name;
    *node = (struct node){.num_xcc = 1}; /* absent on GPUs of one die */
    while (text_next_line(&content, &line)) {
        if (!text_next_word(&line, &name)) {
            continue;
        }
        for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
            uint64_t value = 0;
            if (text_is(name, wanted[i].name) &&
                text_unsigned(text_trim(line), &value) == TEXT_NUMBER_OK && value <= UINT32_MAX) {
                *wanted[i].value = value;
            }
        }
    }
}

static bool visit_node(void *argument, const char *name)
{
    struct survey *survey = argument;
    char path[128];
    char buffer[MAX_PROPERTIES];
    struct text content;
    struct text line;
    struct node node;
    uint64_t gpu_id = 0;
    (void)snprintf(path, sizeof path, "sys/class/kfd/kfd/topology/nodes/%.40s/gpu_id", name);
    enum read_status status = sysroot_read(survey->root, path, buffer, sizeof buffer, &content);
    if (status == READ_OK && text_next_line(&content, &line) &&
        text_unsigned(text_trim(line), &gpu_id) == TEXT_NUMBER_OK && gpu_id == 0) {
        return true; /* a CPU */
    }
    if (status == READ_OK) {
        (void)snprintf(path, sizeof path, "sys/class/kfd/kfd/topology/nodes/%.40s/properties",
                       name);
        status = sysroot_read(survey->root, path, buffer, sizeof buffer, &content);
    }
    if (status != READ_OK) {
        survey->n_hidden += status == READ_DENIED ? 1 : 0;
        return true;
    }
    read_properties(content, &node);
    struct gpu *gpu = add_gpu(survey, (uint32_t)node.domain, (uint32_t)(node.location_id & 0xfff8));
    if (gpu == NULL) {
        return false;
    }
    survey->n_visible++;
    if (gpu->n_nodes++ == 0) {
        gpu->n_cus = node.simd_per_cu > 0 ? (uint32_t)(node.simd_count / node.simd_per_cu) : 0;
        gpu->n_xccs = (uint32_t)node.num_xcc;
        gpu->gfx = (uint32_t)node.gfx_target_version;
        gpu->device = (uint32_t)node.device_id;
    }
    return true;
}

static bool visit_pci(void *argument, const char *name)
{
    struct survey *survey = argument;
    uint32_t domain = 0;
    uint32_t slot = 0;
    if (!parse_bus_id(text_of(name), &domain, &slot)) {
        return true; /* bind, new_id, module and the like */
    }
    return add_gpu(survey, domain, slot) != NULL;
}

/* Reads one attribute of the PCI device, first line, trimmed. */
static struct text read_attribute(const struct sysroot *root, const struct gpu *gpu,
                                  const char *name, char buffer[MAX_ATTRIBUTE])
{
    static const char *const places[] = {"sys/bus/pci/drivers/amdgpu", "sys/bus/pci/devices"};
    char path[192];
    struct text content;
    struct text line;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        /* The attributes are on function 0; HIP and KFD number partitions in the function. */
        (void)snprintf(path, sizeof path, "%s/%04x:%02x:%02x.0/%s", places[i],
                       (unsigned)gpu->domain, (unsigned)(gpu->slot >> 8 & 0xff),
                       (unsigned)(gpu->slot >> 3 & 0x1f), name);
        if (sysroot_read(root, path, buffer, MAX_ATTRIBUTE, &content) == READ_OK &&
            text_next_line(&content, &line)) {
            return text_trim(line);
        }
    }
    return text_of("");
}

static bool is_partitioned_arch(const struct gpu *gpu)
{
    return gpu->gfx >= FIRST_PARTITIONED_GFX && gpu->gfx <= LAST_PARTITIONED_GFX;
}

/* PCI ids stand in for the arch where KFD cannot be read: 0x74a0 to 0x74bf are the MI300 family and
 * its virtual functions (gfx942), 0x75a0 to 0x75bf the MI350 family (gfx950). */
static uint32_t gfx_of_device(uint32_t device)
{
    if ((device & ~0x1fU) == 0x74a0) {
        return 90402;
    }
    return (device & ~0x1fU) == 0x75a0 ? 90500 : 0;
}

static void read_gpu(const struct sysroot *root, struct gpu *gpu)
{
    char buffer[MAX_ATTRIBUTE];
    uint64_t device = 0;
    if (text_hex(read_attribute(root, gpu, "device", buffer), &device) == TEXT_NUMBER_OK &&
        gpu->device == 0 && device <= UINT32_MAX) {
        gpu->device = (uint32_t)device;
    }
    gpu->gfx = gpu->gfx != 0 ? gpu->gfx : gfx_of_device(gpu->device);
    gpu->mode.compute =
        mode_compute(read_attribute(root, gpu, "current_compute_partition", buffer));
    gpu->mode.memory = mode_memory(read_attribute(root, gpu, "current_memory_partition", buffer));
    if (gpu->mode.compute == COMPUTE_UNKNOWN && is_partitioned_arch(gpu)) {
        /* An old driver has no such file.  One die per node can only be CPX; anything else depends
         * on how many dies the product has, and is left unknown. */
        gpu->mode.compute = gpu->n_xccs == 1 ? COMPUTE_CPX : COMPUTE_UNKNOWN;
    } else if (gpu->mode.compute == COMPUTE_UNKNOWN && gpu->gfx != 0) {
        gpu->mode = (struct mode){COMPUTE_NONE, 0};
    }
    gpu->contradictory = (gpu->mode.compute == COMPUTE_SPX && gpu->n_nodes > 1) ||
                         (gpu->mode.compute == COMPUTE_CPX && gpu->n_xccs > 1);
}

static void arch_text(uint32_t gfx, char *buffer, size_t size)
{
    buffer[0] = '\0';
    if (gfx != 0) { /* the step is one hexadecimal digit: 90010 is gfx90a */
        (void)snprintf(buffer, size, "gfx%u%u%x", (unsigned)(gfx / 10000),
                       (unsigned)(gfx / 100 % 100), (unsigned)(gfx % 100));
    }
}

static void unknown(struct machine *machine, const char *reason)
{
    machine->status = MACHINE_UNKNOWN;
    (void)snprintf(machine->reason, sizeof machine->reason, "%s", reason);
}

/* Whether a GPU counts: one that KFD lists, or any where KFD lists none. */
static bool is_live(const struct survey *survey, const struct gpu *gpu)
{
    return gpu->n_nodes > 0 || (survey->n_visible == 0 && survey->n_hidden == 0);
}

static bool is_before(const struct gpu *gpu, const struct gpu *other)
{
    return gpu->domain < other->domain || (gpu->domain == other->domain && gpu->slot < other->slot);
}

/* The GPU at hand when nobody says which: the first on the bus, provided that all are alike.  The
 * order of a folder's entries is no order: with one partition gone it said 7 on a socket, or 8. */
static const struct gpu *common_gpu(const struct survey *survey, struct machine *machine)
{
    const struct gpu *chosen = NULL;
    for (uint32_t i = 0; i < survey->n_gpus; i++) {
        const struct gpu *gpu = &survey->gpus[i];
        if (!is_live(survey, gpu)) {
            continue;
        }
        if (chosen != NULL && (gpu->gfx != chosen->gfx || gpu->device != chosen->device ||
                               !mode_equal(gpu->mode, chosen->mode))) {
            unknown(machine, "the GPUs are not alike, and no HIP runtime says which one is ours");
            return NULL;
        }
        chosen = chosen == NULL || is_before(gpu, chosen) ? gpu : chosen;
    }
    if (chosen == NULL && survey->n_hidden > 0) {
        unknown(machine, "all GPUs are hidden from this process");
    }
    return chosen;
}

static void describe(const struct survey *survey, const struct gpu *chosen, uint32_t n_cus,
                     struct machine *machine)
{
    machine->status = MACHINE_KNOWN;
    arch_text(chosen->gfx, machine->arch, sizeof machine->arch);
    machine->device = chosen->device;
    machine->n_cus = n_cus != 0 ? n_cus : chosen->n_cus;
    machine->mode = chosen->mode;
    machine->n_on_socket = chosen->n_nodes;
    for (uint32_t i = 0; i < survey->n_gpus; i++) {
        const struct gpu *gpu = &survey->gpus[i];
        machine->mixed = machine->mixed || (is_live(survey, gpu) && gpu->gfx == chosen->gfx &&
                                            !mode_equal(gpu->mode, chosen->mode));
    }
    if (chosen->contradictory) {
        unknown(machine, "the driver's compute partition and KFD's topology disagree");
        machine->mode = (struct mode){COMPUTE_UNKNOWN, 0};
    }
}

static bool ignore_entry(void *argument, const char *name)
{
    (void)argument;
    (void)name;
    return false;
}

static void choose(struct survey *survey, const char *bus_id, uint32_t n_cus,
                   struct machine *machine)
{
    uint32_t domain = 0;
    uint32_t slot = 0;
    const struct gpu *chosen = NULL;
    if (survey->overflow) {
        unknown(machine, "more GPUs than this build can hold");
        return;
    }
    if (bus_id != NULL && bus_id[0] != '\0') {
        chosen =
            parse_bus_id(text_of(bus_id), &domain, &slot) ? gpu_at(survey, domain, slot) : NULL;
        if (chosen == NULL) {
            (void)snprintf(machine->reason, sizeof machine->reason,
                           "the GPU that HIP names (%.31s) is not in sysfs", bus_id);
            return;
        }
    } else {
        chosen = common_gpu(survey, machine);
    }
    if (chosen != NULL) {
        describe(survey, chosen, n_cus, machine);
    } else if (machine->reason[0] == '\0') {
        /* Nothing found.  That is an answer only if /sys can be seen at all. */
        bool seen =
            sysroot_list(survey->root, "sys/bus/pci/devices", ignore_entry, NULL) == READ_OK;
        machine->status = seen ? MACHINE_NO_AMD_GPU : MACHINE_UNKNOWN;
        if (seen) {
            machine->mode = (struct mode){COMPUTE_NONE, 0};
        } else {
            unknown(machine, "/sys/bus/pci cannot be read");
        }
    }
}

void machine_detect(const struct sysroot *root, const char *bus_id, uint32_t n_cus,
                    struct machine *machine)
{
    struct survey survey = {.root = root, .gpus = calloc(MAX_GPUS, sizeof(struct gpu))};
    *machine = (struct machine){.status = MACHINE_UNKNOWN};
    machine->has_nvidia = product_detect(root, machine->product);
    if (survey.gpus == NULL) {
        unknown(machine, "out of memory");
        return;
    }
    (void)sysroot_list(root, "sys/class/kfd/kfd/topology/nodes", visit_node, &survey);
    (void)sysroot_list(root, "sys/bus/pci/drivers/amdgpu", visit_pci, &survey);
    machine->n_visible = survey.n_visible;
    machine->n_hidden = survey.n_hidden;
    for (uint32_t i = 0; i < survey.n_gpus; i++) {
        machine->n_sockets += survey.gpus[i].n_nodes > 0 ? 1 : 0;
        read_gpu(root, &survey.gpus[i]);
    }
    choose(&survey, bus_id, n_cus, machine);
    free(survey.gpus);
}
