#define _GNU_SOURCE /* dl_iterate_phdr */

#include "loaded.h"

#include <elf.h>
#include <link.h>
#include <string.h>

/* What is looked for among the loaded objects, and what was found. */
struct search {
    const char *prefix; /* of the file's name, or NULL */
    uintptr_t address;  /* that the object holds, where there is no prefix */
    struct loaded_object *found;
    unsigned room;
    unsigned count;
};

const char *loaded_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* glibc stores absolute addresses in a loaded dynamic section, other C libraries leave offsets. */
static const void *absolute(ElfW(Addr) base, ElfW(Addr) value)
{
    return (const void *)(value < base ? base + value : value);
}

static bool read_dynamic(const struct dl_phdr_info *info, struct loaded_object *object)
{
    const ElfW(Dyn) *soname = NULL;
    *object = (struct loaded_object){.path = info->dlpi_name, .base = info->dlpi_addr};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) {
            continue;
        }
        const ElfW(Dyn) *entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        for (; entry->d_tag != DT_NULL; entry++) {
            const void *at = absolute(info->dlpi_addr, entry->d_un.d_ptr);
            if (entry->d_tag == DT_SYMTAB) {
                object->symbols = at;
            } else if (entry->d_tag == DT_STRTAB) {
                object->names = at;
            } else if (entry->d_tag == DT_GNU_HASH) {
                object->gnu_hash = at;
            } else if (entry->d_tag == DT_HASH) {
                object->sysv_hash = at;
            } else if (entry->d_tag == DT_SONAME) {
                soname = entry;
            }
        }
    }
    if (soname != NULL && object->names != NULL) {
        object->soname = object->names + soname->d_un.d_val;
    }
    return object->symbols != NULL && object->names != NULL &&
           (object->gnu_hash != NULL || object->sysv_hash != NULL);
}

static bool holds(const struct dl_phdr_info *info, uintptr_t address)
{
    bool inside = false;
    for (unsigned i = 0; i < info->dlpi_phnum && !inside; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        inside =
            part->p_type == PT_LOAD && address - info->dlpi_addr - part->p_vaddr < part->p_memsz;
    }
    return inside;
}

static int collect(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct search *search = argument;
    const char *prefix = search->prefix;
    (void)size;
    bool wanted =
        info->dlpi_name != NULL && search->count < search->room &&
        (prefix != NULL ? strncmp(loaded_file_name(info->dlpi_name), prefix, strlen(prefix)) == 0
                        : holds(info, search->address));
    if (wanted && read_dynamic(info, &search->found[search->count])) {
        search->count++;
    }
    return 0;
}

unsigned loaded_named(const char *prefix, struct loaded_object *found, unsigned room)
{
    struct search search = {.prefix = prefix, .found = found, .room = room};
    (void)dl_iterate_phdr(collect, &search);
    return search.count;
}

bool loaded_at(const void *address, struct loaded_object *found)
{
    struct search search = {.address = (uintptr_t)address, .found = found, .room = 1};
    (void)dl_iterate_phdr(collect, &search);
    return search.count > 0;
}

static const void *symbol_if(const struct loaded_object *object, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = (const ElfW(Sym) *)object->symbols + index;
    bool is_function = (symbol->st_info & 0xf) == STT_FUNC && symbol->st_shndx != SHN_UNDEF;
    if (!is_function || strcmp(object->names + symbol->st_name, name) != 0) {
        return NULL;
    }
    return (const void *)(object->base + symbol->st_value);
}

/* GNU hash: header (buckets, first symbol, bloom words, shift), bloom filter, buckets, chain of
 * hashes whose lowest bit marks the end (as glibc elf/dl-lookup.c reads it; the filter is only a
 * shortcut). */
static const void *find_gnu(const struct loaded_object *object, const char *name)
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
static const void *find_sysv(const struct loaded_object *object, const char *name)
{
    const void *at = NULL;
    for (uint32_t i = 1; i < object->sysv_hash[1] && at == NULL; i++) {
        at = symbol_if(object, i, name);
    }
    return at;
}

const void *loaded_function(const struct loaded_object *object, const char *name)
{
    return object->gnu_hash != NULL ? find_gnu(object, name) : find_sysv(object, name);
}
