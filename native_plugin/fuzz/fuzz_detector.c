/*
 * Any bytes as a machine.  Lines `@path` begin a file below the root, what follows is its content;
 * `!path` is a file that may not be read; the first line is the address that HIP gives.  This is
 * sysroot.h from memory, so that no file system slows the fuzzer down.
 */
#include "partition.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_FILES = 256, MAX_NAME = 64 };

static struct {
    struct text path;
    struct text content;
    bool denied;
} files[MAX_FILES];
static size_t n_files;

enum read_status sysroot_open(const char *path, struct sysroot *root)
{
    (void)path;
    root->fd = 0;
    return READ_OK;
}

void sysroot_close(struct sysroot *root)
{
    (void)root;
}

enum read_status sysroot_read(const struct sysroot *root, const char *path, char *buffer,
                              size_t size, struct text *content)
{
    (void)root;
    for (size_t i = 0; i < n_files; i++) {
        if (!text_is(files[i].path, path)) {
            continue;
        }
        if (files[i].denied || files[i].content.left > size) {
            return files[i].denied ? READ_DENIED : READ_FAILED;
        }
        if (files[i].content.left > 0) {
            memcpy(buffer, files[i].content.at, files[i].content.left);
        }
        *content = (struct text){buffer, files[i].content.left};
        return READ_OK;
    }
    return READ_MISSING;
}

enum read_status sysroot_list(const struct sysroot *root, const char *path,
                              bool (*visit)(void *argument, const char *name), void *argument)
{
    enum read_status status = READ_MISSING;
    char name[MAX_NAME];
    (void)root;
    for (size_t i = 0; i < n_files; i++) {
        struct text rest = files[i].path;
        struct text entry;
        struct text deeper;
        if (!text_skip(&rest, path) || !text_skip(&rest, "/")) {
            continue;
        }
        status = READ_OK;
        entry = text_split(rest, '/', &entry, &deeper) ? entry : rest;
        if (text_copy(entry, name, sizeof name) && name[0] != '\0' && !visit(argument, name)) {
            break;
        }
    }
    return status;
}

static void read_files(struct text rest)
{
    struct text line;
    n_files = 0;
    while (text_next_line(&rest, &line)) {
        bool denied = text_skip(&line, "!");
        if ((denied || text_skip(&line, "@")) && n_files < MAX_FILES) {
            files[n_files].path = line;
            files[n_files].content = (struct text){rest.at, 0};
            files[n_files++].denied = denied;
        } else if (n_files > 0) {
            files[n_files - 1].content.left =
                (size_t)(line.at + line.left - files[n_files - 1].content.at);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct text rest = {(const char *)data, size};
    struct text first = {NULL, 0};
    struct sysroot root = {0};
    struct machine machine;
    char bus_id[32];
    (void)text_next_line(&rest, &first);
    read_files(rest);
    (void)text_copy(first, bus_id, sizeof bus_id);
    machine_detect(&root, bus_id, 0, &machine);
    bool terminated = memchr(machine.arch, '\0', sizeof machine.arch) != NULL &&
                      memchr(machine.reason, '\0', sizeof machine.reason) != NULL &&
                      memchr(machine.product, '\0', sizeof machine.product) != NULL;
    bool reasoned = machine.status != MACHINE_UNKNOWN || machine.reason[0] != '\0';
    if (!terminated || !reasoned || machine.n_sockets > machine.n_visible) {
        abort();
    }
    return 0;
}
