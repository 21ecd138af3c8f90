/*
 * dlopen and dlsym are avoided on purpose.  They moved from libdl to libc in glibc 2.34, so a
 * library built there would not load on the older systems that ROCm supports; and RTLD_NOLOAD needs
 * the exact soname, of which there is one per major release (libamdhip64.so.5, .6, .7).  Walking
 * the objects that are loaded needs neither; the price is the lookup in an ELF hash table below.
 */
#define _GNU_SOURCE /* dl_iterate_phdr */

#include "hip.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

enum {
    MAX_RUNTIMES = 4,
    /* hipDeviceAttributeMultiprocessorCount: 63 in hip_runtime_api.h of ROCm 5, 6 and 7. */
    HIP_ATTRIBUTE_CU_COUNT = 63,
};

/* The dynamic section of one loaded object, as far as a lookup needs it. */
struct object {
    ElfW(Addr) base;
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash; /* 32-bit words on x86-64 and aarch64 */
};

struct found_objects {
    struct object objects[MAX_RUNTIMES];
    unsigned count;
};

typedef int (*hip_get_device)(int *device);
typedef int (*hip_get_bus_id)(char *bus_id, int size, int device);
typedef int (*hip_get_attribute)(int *value, int attribute, int device);

static bool is_hip_runtime(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *file = slash == NULL ? path : slash + 1;
    return strncmp(file, "libamdhip64", strlen("libamdhip64")) == 0;
}

/* glibc stores absolute addresses in a loaded dynamic section, other C libraries leave offsets. */
static const void *address(ElfW(Addr) base, ElfW(Addr) value)
{
    return (const void *)(value < base ? base + value : value);
}

static bool read_dynamic(const struct dl_phdr_info *info, struct object *object)
{
    *object = (struct object){.base = info->dlpi_addr};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) {
            continue;
        }
        const ElfW(Dyn) *entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        for (; entry->d_tag != DT_NULL; entry++) {
            const void *at = address(info->dlpi_addr, entry->d_un.d_ptr);
            if (entry->d_tag == DT_SYMTAB) {
                object->symbols = at;
            } else if (entry->d_tag == DT_STRTAB) {
                object->names = at;
            } else if (entry->d_tag == DT_GNU_HASH) {
                object->gnu_hash = at;
            } else if (entry->d_tag == DT_HASH) {
                object->sysv_hash = at;
            }
        }
    }
    return object->symbols != NULL && object->names != NULL &&
           (object->gnu_hash != NULL || object->sysv_hash != NULL);
}

static int collect(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct found_objects *found = argument;
    (void)size;
    if (info->dlpi_name != NULL && is_hip_runtime(info->dlpi_name) && found->count < MAX_RUNTIMES &&
        read_dynamic(info, &found->objects[found->count])) {
        found->count++;
    }
    return 0;
}

static const void *symbol_if(const struct object *object, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &object->symbols[index];
    bool is_function = (symbol->st_info & 0xf) == STT_FUNC && symbol->st_shndx != SHN_UNDEF;
    if (!is_function || strcmp(object->names + symbol->st_name, name) != 0) {
        return NULL;
    }
    return (const void *)(object->base + symbol->st_value);
}

/* GNU hash: header (buckets, first symbol, bloom words, shift), bloom filter, buckets, chain of
 * hashes whose lowest bit marks the end (as glibc elf/dl-lookup.c reads it; the filter is only a
 * shortcut). */
static const void *find_gnu(const struct object *object, const char *name)
{
    const uint32_t *table = object->gnu_hash;
    uint32_t n_buckets = table[0];
    uint32_t first = table[1];
    const uint32_t *buckets = table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = buckets + n_buckets;
    uint32_t hash = 5381;
    for (const char *at = name; *at != '\0'; at++) {
        hash = hash * 33 + (unsigned char)*at;
    }
    uint32_t index = n_buckets == 0 ? 0 : buckets[hash % n_buckets];
    for (; index >= first && index != 0; index++) {
        uint32_t here = chain[index - first];
        const void *at = (here | 1U) == (hash | 1U) ? symbol_if(object, index, name) : NULL;
        if (at != NULL || (here & 1U) != 0) {
            return at;
        }
    }
    return NULL;
}

/* The older table has the number of symbols in its second word: a plain search is enough, once per
 * communicator. */
static const void *find_sysv(const struct object *object, const char *name)
{
    const void *at = NULL;
    for (uint32_t i = 1; i < object->sysv_hash[1] && at == NULL; i++) {
        at = symbol_if(object, i, name);
    }
    return at;
}

static const void *find(const struct object *object, const char *name)
{
    return object->gnu_hash != NULL ? find_gnu(object, name) : find_sysv(object, name);
}

static bool ask(const struct object *object, struct hip_device *device)
{
    int current = -1;
    int n_cus = 0;
    /* ISO C has no cast from object to function pointers; POSIX systems have, and memcpy says so.
     */
    const void *addresses[3] = {find(object, "hipGetDevice"), find(object, "hipDeviceGetPCIBusId"),
                                find(object, "hipDeviceGetAttribute")};
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
    struct found_objects found = {.count = 0};
    struct hip_device other;
    bool known = false;
    *device = (struct hip_device){.n_cus = 0};
    (void)dl_iterate_phdr(collect, &found);
    for (unsigned i = 0; i < found.count; i++) {
        if (!ask(&found.objects[i], &other)) {
            continue;
        }
        if (known && strcmp(other.bus_id, device->bus_id) != 0) {
            return HIP_AMBIGUOUS;
        }
        *device = other;
        known = true;
    }
    return known ? HIP_OK : found.count > 0 ? HIP_FAILED : HIP_NOT_LOADED;
}
