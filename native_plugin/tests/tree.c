#define _GNU_SOURCE /* nftw, mkdtemp */

#include "tree.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reading it is denied to everybody, root included, as KFD's files are outside the device cgroup.
 */
static const char denied[] = "/proc/sys/vm/compact_memory";

struct gpu_line {
    unsigned device;
    unsigned gfx;
    unsigned xccs;
    unsigned cus;
    unsigned nodes;
    unsigned hidden;
    bool high;
    char compute[32];
    char memory[32];
};

struct writer {
    const char *root;
    unsigned next_node;
    bool kfd;
};

void tree_make(char *path, size_t size)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(path, size, "%s/rccltune-test-XXXXXX", base == NULL ? "/tmp" : base);
    if (mkdtemp(path) == NULL) {
        perror(path);
        exit(1);
    }
}

static void make_parents(char *path)
{
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at == '/') {
            *at = '\0';
            (void)mkdir(path, 0755);
            *at = '/';
        }
    }
}

bool tree_put(const char *root, const char *path, const char *content)
{
    char full[1024];
    (void)snprintf(full, sizeof full, "%s/%s", root, path);
    make_parents(full);
    FILE *file = fopen(full, "w");
    if (file == NULL) {
        return false;
    }
    bool good = fputs(content, file) >= 0;
    return fclose(file) == 0 && good;
}

static bool put_link(const char *root, const char *path, const char *target)
{
    char full[1024];
    (void)snprintf(full, sizeof full, "%s/%s", root, path);
    make_parents(full);
    return symlink(target, full) == 0;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)type;
    (void)where;
    return remove(path);
}

void tree_remove(const char *root)
{
    (void)nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *tree_value(const char *line, const char *key, char *value, size_t size)
{
    size_t length = strlen(key);
    for (const char *at = strstr(line, key); at != NULL; at = strstr(at + 1, key)) {
        if (at > line && at[-1] == ' ' && at[length] == '=') {
            size_t n = strcspn(at + length + 1, " \n");
            (void)snprintf(value, size, "%.*s", (int)n, at + length + 1);
            return value;
        }
    }
    return NULL;
}

static unsigned number(const char *line, const char *key)
{
    char value[64];
    return tree_value(line, key, value, sizeof value) == NULL ? 0
                                                              : (unsigned)strtoul(value, NULL, 0);
}

static bool put_node(struct writer *writer, bool is_denied, const char *gpu_id,
                     const char *properties)
{
    char path[128];
    unsigned node = writer->next_node++;
    if (!writer->kfd) {
        return true;
    }
    (void)snprintf(path, sizeof path, "sys/class/kfd/kfd/topology/nodes/%u/gpu_id", node);
    if (is_denied) {
        return put_link(writer->root, path, denied);
    }
    bool good = tree_put(writer->root, path, gpu_id);
    (void)snprintf(path, sizeof path, "sys/class/kfd/kfd/topology/nodes/%u/properties", node);
    return good && tree_put(writer->root, path, properties);
}

static bool put_gpu_nodes(struct writer *writer, const struct gpu_line *gpu, unsigned domain,
                          unsigned bus, unsigned device)
{
    char properties[512];
    char gpu_id[32];
    bool good = true;
    for (unsigned i = 0; i < gpu->nodes + gpu->hidden; i++) {
        unsigned location = bus << 8 | device << 3 | (gpu->high ? i << 28 : i);
        (void)snprintf(gpu_id, sizeof gpu_id, "%u\n", 1000 + writer->next_node);
        (void)snprintf(properties, sizeof properties,
                       "cpu_cores_count 0\nsimd_count %u\nsimd_per_cu 4\nnum_xcc %u\n"
                       "gfx_target_version %u\nvendor_id 4098\ndevice_id %u\nlocation_id %u\n"
                       "domain %u\nunique_id %u\n",
                       gpu->cus * 4, gpu->xccs, gpu->gfx, gpu->device, location, domain, bus + 1);
        good = put_node(writer, i >= gpu->nodes, gpu_id, properties) && good;
    }
    return good;
}

static bool put_pci(const char *root, const struct gpu_line *gpu, const char *at)
{
    char path[256];
    char content[64];
    const struct {
        const char *name;
        const char *value;
    } files[] = {{"vendor", "0x1002"},
                 {"device", content},
                 {"current_compute_partition", gpu->compute},
                 {"current_memory_partition", gpu->memory}};
    bool good = true;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        (void)snprintf(content, sizeof content, "0x%04x", gpu->device);
        if (files[i].value[0] != '\0') {
            char line[80];
            (void)snprintf(line, sizeof line, "%s\n", files[i].value);
            (void)snprintf(path, sizeof path, "sys/bus/pci/devices/%s.0/%s", at, files[i].name);
            good = tree_put(root, path, line) && good;
        }
    }
    (void)snprintf(path, sizeof path, "sys/bus/pci/drivers/amdgpu/%s.0", at);
    (void)snprintf(content, sizeof content, "../../devices/%s.0", at);
    return put_link(root, path, content) && good;
}

static bool put_gpus(struct writer *writer, const char *line)
{
    char list[512];
    struct gpu_line gpu = {number(line, "device"),
                           number(line, "gfx"),
                           number(line, "xccs"),
                           number(line, "cus"),
                           number(line, "nodes"),
                           number(line, "hidden"),
                           strstr(line, "location=high") != NULL,
                           "",
                           ""};
    (void)tree_value(line, "compute", gpu.compute, sizeof gpu.compute);
    (void)tree_value(line, "memory", gpu.memory, sizeof gpu.memory);
    if (tree_value(line, "at", list, sizeof list) == NULL) {
        return false;
    }
    char *state = NULL;
    bool good = true;
    for (char *at = strtok_r(list, ",", &state); at != NULL; at = strtok_r(NULL, ",", &state)) {
        unsigned domain = 0;
        unsigned bus = 0;
        unsigned device = 0;
        good = sscanf(at, "%x:%x:%x", &domain, &bus, &device) == 3 && good;
        good = put_gpu_nodes(writer, &gpu, domain, bus, device) &&
               put_pci(writer->root, &gpu, at) && good;
    }
    return good;
}

/* NVIDIA's driver shows each GPU in a folder of its own (here of a driver 580); a model's blanks
 * are written as underscores. */
static bool put_nvidia(const char *root, const char *line)
{
    char list[512];
    char model[64] = "";
    char path[128];
    char content[256];
    bool good = tree_value(line, "at", list, sizeof list) != NULL;
    (void)tree_value(line, "model", model, sizeof model);
    for (char *at = strchr(model, '_'); at != NULL; at = strchr(at, '_')) {
        *at = ' ';
    }
    (void)snprintf(content, sizeof content, "Model: \t\t %s\nIRQ:   \t\t 16\nGPU UUID: \t GPU-0\n",
                   model);
    char *state = NULL;
    for (char *at = strtok_r(list, ",", &state); good && at != NULL;
         at = strtok_r(NULL, ",", &state)) {
        (void)snprintf(path, sizeof path, "proc/driver/nvidia/gpus/%s.0/information", at);
        good = tree_put(root, path, model[0] != '\0' ? content : "IRQ:   \t\t 16\n");
    }
    return good;
}

bool tree_write(const char *description, const char *root)
{
    char line[TREE_LINE];
    struct writer writer = {root, 0, true};
    bool good = true;
    FILE *file = fopen(description, "r");
    if (file == NULL) {
        return false;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "no-kfd", 6) == 0) {
            writer.kfd = false;
        } else if (strncmp(line, "pci", 3) == 0) {
            good = tree_put(root, "sys/bus/pci/devices/0000:00:00.0/vendor", "0x8086\n") && good;
        } else if (strncmp(line, "cpus ", 5) == 0) {
            for (unsigned n = (unsigned)strtoul(line + 5, NULL, 10); n > 0; n--) {
                good =
                    put_node(&writer, false, "0\n", "cpu_cores_count 96\nsimd_count 0\n") && good;
            }
        } else if (strncmp(line, "gpu ", 4) == 0) {
            good = put_gpus(&writer, line) && good;
        } else if (strncmp(line, "nvidia ", 7) == 0) {
            good = put_nvidia(root, line) && good;
        }
    }
    (void)fclose(file);
    return good;
}
