/*
 * Device and host memory: one range of addresses a device, given out in order, whose pages
 * exist once somebody writes to them.  A device's range is a file in memory, so that
 * another process maps what an IPC handle names through /proc/<pid>/fd.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hip.h"
#include "stream.h"

#ifndef RANGE_BYTES /* ThreadSanitizer leaves less room for addresses */
#define RANGE_BYTES ((size_t)1 << 40)
#endif
enum { PAGE = 4096, LARGE = 2 << 20, HOST = HIP_MAX_DEVICES };

struct block {
    size_t at, size;
    bool is_free;
};

static struct range {
    char *base;
    int file;
    size_t used, taken;   /* addresses; bytes of living blocks */
    struct block *blocks; /* by address */
    size_t n_blocks, room;
} ranges[HIP_MAX_DEVICES + 1]; /* the last one is the host's */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static bool reserve(int owner)
{
    struct range *range = &ranges[owner];
    int flags = MAP_NORESERVE | MAP_PRIVATE | MAP_ANONYMOUS, file = -1;
    if (owner != HOST) {
        file = memfd_create("stand-in device memory", MFD_CLOEXEC);
        if (file < 0 || ftruncate(file, (off_t)RANGE_BYTES) != 0)
            return false;
        flags = MAP_NORESERVE | MAP_SHARED;
    }
    char *base = mmap(NULL, RANGE_BYTES, PROT_READ | PROT_WRITE, flags, file, 0);
    if (base == MAP_FAILED)
        return false;
    range->base = base;
    range->file = file;
    return true;
}

static bool grow(struct range *range)
{
    size_t room = range->room > 0 ? 2 * range->room : 256;
    struct block *blocks = realloc(range->blocks, room * sizeof *blocks);
    if (blocks == NULL)
        return false;
    range->blocks = blocks;
    range->room = room;
    return true;
}

static size_t taken_by(size_t size)
{
    return round_up(size > 0 ? size : 1, size >= LARGE ? LARGE : PAGE);
}

/* Bytes of a device's memory; no limit where nobody said how much it has. */
static size_t memory_of(int owner)
{
    int64_t mib = owner != HOST ? hip_node()->memory_mib : 0;
    return mib > 0 ? (size_t)mib << 20 : SIZE_MAX;
}

static int take(int owner, void **pointer, size_t size)
{
    struct range *range = &ranges[owner];
    size_t room = memory_of(owner);
    size_t wanted = taken_by(size);
    int result = HIP_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    size_t at = wanted >= LARGE ? round_up(range->used, LARGE) : range->used;
    bool fits = wanted >= size && range->taken <= room && wanted <= room - range->taken &&
                at <= RANGE_BYTES && wanted <= RANGE_BYTES - at;
    if (fits && (range->base != NULL || reserve(owner)) &&
        (range->n_blocks < range->room || grow(range))) {
        range->blocks[range->n_blocks++] = (struct block){.at = at, .size = size};
        range->used = at + wanted;
        range->taken += wanted;
        *pointer = range->base + at;
        result = HIP_OK;
    }
    pthread_mutex_unlock(&lock);
    return result == HIP_OK ? result : hip_fail(result);
}

static int owner_of(const void *pointer)
{
    for (int i = 0; i <= HOST; i++) {
        const char *base = ranges[i].base;
        if (base != NULL && (const char *)pointer >= base &&
            (const char *)pointer < base + RANGE_BYTES)
            return i;
    }
    return -1;
}

/* The block that an address lies in, with the lock held; NULL where there is none. */
static struct block *find(int owner, const void *pointer)
{
    struct range *range = &ranges[owner];
    size_t at = (size_t)((const char *)pointer - range->base), low = 0, high = range->n_blocks;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (range->blocks[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    struct block *block = low > 0 ? &range->blocks[low - 1] : NULL;
    bool inside = block != NULL && at < block->at + (block->size > 0 ? block->size : 1);
    return inside && !block->is_free ? block : NULL;
}

/* The same, copied; its owner, or -1. */
static int look_up(const void *pointer, struct block *found)
{
    int owner = owner_of(pointer);
    if (owner < 0)
        return -1;
    pthread_mutex_lock(&lock);
    struct block *block = find(owner, pointer);
    if (block != NULL)
        *found = *block;
    pthread_mutex_unlock(&lock);
    return block != NULL ? owner : -1;
}

/* Whole pages become untouched ones again. */
static void drop(int owner, char *from, size_t size)
{
    if (size > 0)
        madvise(from, size, owner == HOST ? MADV_DONTNEED : MADV_REMOVE);
}

/* Addresses are given out in order; those behind the last living block are given out again. */
static void forget(struct range *range, struct block *block)
{
    range->taken -= taken_by(block->size);
    block->is_free = true;
    while (range->n_blocks > 0 && range->blocks[range->n_blocks - 1].is_free)
        range->used = range->blocks[--range->n_blocks].at;
}

static int give_back(void *pointer)
{
    int owner = owner_of(pointer);
    struct block block = {0};
    if (pointer == NULL)
        return HIP_OK;
    if (owner < 0)
        return hip_fail(HIP_INVALID_VALUE);
    pthread_mutex_lock(&lock);
    struct block *found = find(owner, pointer);
    bool is_start = found != NULL && ranges[owner].base + found->at == (char *)pointer;
    if (is_start) {
        block = *found;
        forget(&ranges[owner], found);
    }
    pthread_mutex_unlock(&lock);
    if (!is_start)
        return hip_fail(HIP_INVALID_VALUE);
    drop(owner, pointer, round_up(block.size, PAGE));
    return HIP_OK;
}

static void fill(void *pointer, int value, size_t size)
{
    int owner = owner_of(pointer);
    char *from = pointer, *to = from + size;
    char *first = (char *)round_up((size_t)from, PAGE), *last = (char *)((size_t)to / PAGE * PAGE);
    if (value != 0 || owner < 0 || first >= last) {
        memset(pointer, value, size);
        return;
    }
    memset(from, 0, (size_t)(first - from));
    drop(owner, first, (size_t)(last - first));
    memset(last, 0, (size_t)(to - last));
}

void rccltune_machine_clear(void *pointer, size_t size)
{
    fill(pointer, 0, size);
}

bool rccltune_machine_memory(const void *pointer, size_t size, int *file, size_t *at)
{
    struct block block;
    int owner = look_up(pointer, &block);
    if (owner < 0 || owner == HOST)
        return false;
    *file = ranges[owner].file;
    *at = (size_t)((const char *)pointer - ranges[owner].base);
    return *at + size <= block.at + block.size;
}

EXPORT int hipMalloc(void **pointer, size_t size)
{
    return take(hip_current(), pointer, size);
}

EXPORT int hipExtMallocWithFlags(void **pointer, size_t size, unsigned flags)
{
    (void)flags;
    return take(hip_current(), pointer, size);
}

EXPORT int hipMallocFromPoolAsync(void **pointer, size_t size, void *pool, void *stream)
{
    (void)pool;
    if (hip_is_captured(stream))
        return hip_unmade("hipMallocFromPoolAsync in a graph");
    return take(hip_current(), pointer, size);
}

EXPORT int hipFree(void *pointer)
{
    return give_back(pointer);
}

EXPORT int hipHostMalloc(void **pointer, size_t size, unsigned flags)
{
    (void)flags;
    return take(HOST, pointer, size);
}

EXPORT int hipHostFree(void *pointer)
{
    return give_back(pointer);
}

EXPORT int hipHostRegister(void *pointer, size_t size, unsigned flags)
{
    (void)pointer, (void)size, (void)flags;
    return HIP_OK;
}

EXPORT int hipHostUnregister(void *pointer)
{
    (void)pointer;
    return HIP_OK;
}

EXPORT int hipHostGetDevicePointer(void **device, void *host, unsigned flags)
{
    (void)flags;
    *device = host;
    return HIP_OK;
}

EXPORT int hipMemcpy(void *to, const void *from, size_t size, int kind)
{
    (void)kind;
    memmove(to, from, size);
    return HIP_OK;
}

EXPORT int hipMemGetInfo(size_t *available, size_t *total)
{
    int owner = hip_current();
    size_t room = memory_of(owner);
    pthread_mutex_lock(&lock);
    size_t taken = ranges[owner].taken;
    pthread_mutex_unlock(&lock);
    *total = room;
    *available = room - (taken < room ? taken : room);
    return HIP_OK;
}

/* A copy or a fill behind something that moves data first. */
struct later {
    void *to;
    const void *from; /* NULL: fill */
    size_t size;
    int value;
    char copy[]; /* of what the host may change meanwhile */
};

static void do_later(void *data)
{
    struct later *later = data;
    if (later->from != NULL)
        memmove(later->to, later->from, later->size);
    else
        fill(later->to, later->value, later->size);
}

static int defer_copy(const struct later *what, void *stream)
{
    bool keeps = what->from != NULL && owner_of(what->from) < 0;
    struct later *later = malloc(sizeof *later + (keeps ? what->size : 0));
    if (later == NULL)
        return hip_fail(HIP_OUT_OF_MEMORY);
    *later = *what;
    if (keeps)
        later->from = memcpy(later->copy, what->from, what->size);
    return rccltune_machine_defer(stream, do_later, free, later);
}

EXPORT int hipMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream)
{
    if (hip_is_captured(stream))
        return hip_unmade("hipMemcpyAsync in a graph");
    if (hip_is_waiting(stream))
        return defer_copy(&(struct later){.to = to, .from = from, .size = size}, stream);
    return hipMemcpy(to, from, size, kind);
}

EXPORT int hipMemsetAsync(void *pointer, int value, size_t size, void *stream)
{
    if (hip_is_captured(stream))
        return hip_unmade("hipMemsetAsync in a graph");
    if (hip_is_waiting(stream))
        return defer_copy(&(struct later){.to = pointer, .size = size, .value = value}, stream);
    fill(pointer, value, size);
    return HIP_OK;
}

EXPORT int hipMemGetAddressRange(void **base, size_t *size, void *pointer)
{
    struct block block;
    int owner = look_up(pointer, &block);
    if (owner < 0)
        return hip_fail(HIP_NOT_FOUND);
    if (base != NULL)
        *base = ranges[owner].base + block.at;
    if (size != NULL)
        *size = block.size;
    return HIP_OK;
}

EXPORT int hipPointerGetAttributes(struct hip_pointer_attributes *attributes, const void *pointer)
{
    int owner = owner_of(pointer);
    memset(attributes, 0, sizeof *attributes);
    if (owner < 0)
        return hip_fail(HIP_INVALID_VALUE);
    attributes->type = owner == HOST ? HIP_MEMORY_HOST : HIP_MEMORY_DEVICE;
    attributes->device = owner == HOST ? 0 : hip_ordinal(owner);
    attributes->device_pointer = (void *)(uintptr_t)pointer;
    attributes->host_pointer = owner == HOST ? attributes->device_pointer : NULL;
    return HIP_OK;
}

EXPORT int hipPointerGetAttribute(void *value, int which, void *pointer)
{
    struct block block;
    int owner = look_up(pointer, &block);
    if (owner < 0)
        return hip_fail(HIP_INVALID_VALUE);
    switch (which) {
    case POINTER_DEVICE:
        *(int *)value = owner == HOST ? 0 : hip_ordinal(owner);
        return HIP_OK;
    case POINTER_MEMORY_TYPE:
        *(unsigned *)value = owner == HOST ? HIP_MEMORY_HOST : HIP_MEMORY_DEVICE;
        return HIP_OK;
    case POINTER_LEGACY_IPC:
        *(int *)value = 1;
        return HIP_OK;
    case POINTER_BUFFER_ID:
        *(uint64_t *)value = (uint64_t)owner << 40 | block.at;
        return HIP_OK;
    case POINTER_SYNC_MEMOPS:
        return HIP_OK;
    default:
        return hip_unmade("hipPointerGetAttribute of that kind");
    }
}

/* What an IPC handle holds. */
struct handle {
    char magic[8];
    int process, file, owner;
    size_t at, size;
};
static const char handle_magic[8] = "rcclsim";
_Static_assert(sizeof(struct handle) <= sizeof(struct hip_ipc_handle), "fits into HIP's handle");

EXPORT int hipIpcGetMemHandle(struct hip_ipc_handle *out, void *pointer)
{
    struct block block;
    int owner = look_up(pointer, &block);
    if (owner < 0 || owner == HOST)
        return hip_fail(HIP_INVALID_VALUE);
    struct handle handle = {.process = (int)getpid(),
                            .file = ranges[owner].file,
                            .owner = owner,
                            .at = block.at,
                            .size = block.size};
    memcpy(handle.magic, handle_magic, sizeof handle_magic);
    memset(out, 0, sizeof *out);
    memcpy(out, &handle, sizeof handle);
    return HIP_OK;
}

EXPORT int hipIpcOpenMemHandle(void **pointer, struct hip_ipc_handle in, unsigned flags)
{
    struct handle handle;
    char name[64];
    (void)flags;
    memcpy(&handle, &in, sizeof handle);
    if (memcmp(handle.magic, handle_magic, sizeof handle_magic) != 0)
        return hip_fail(HIP_INVALID_VALUE);
    if (handle.process == (int)getpid()) {
        *pointer = ranges[handle.owner].base + handle.at;
        return HIP_OK;
    }
    snprintf(name, sizeof name, "/proc/%d/fd/%d", handle.process, handle.file);
    int file = open(name, O_RDWR | O_CLOEXEC);
    if (file < 0) {
        fprintf(stderr,
                "rccltune's stand-in HIP runtime cannot open another rank's memory, %s: %s\n", name,
                strerror(errno));
        return hip_fail(HIP_INVALID_VALUE);
    }
    void *mapped = mmap(NULL, round_up(handle.size, PAGE), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE, file, (off_t)handle.at);
    close(file);
    if (mapped == MAP_FAILED)
        return hip_fail(HIP_OUT_OF_MEMORY);
    *pointer = mapped;
    return HIP_OK;
}

/* What was mapped stays: it costs addresses alone, and its size is not known here. */
EXPORT int hipIpcCloseMemHandle(void *pointer)
{
    (void)pointer;
    return HIP_OK;
}
