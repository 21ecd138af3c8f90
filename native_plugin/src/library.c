#include "library.h"

#include "loaded.h"

#include <stdio.h>
#include <string.h>

enum { MOST_NUMBER = 99 };

static const char *const family_names[] = {
    [LIBRARY_UNKNOWN] = "?", [LIBRARY_RCCL] = "RCCL", [LIBRARY_NCCL] = "NCCL"};

typedef int (*get_version_function)(int *code);

bool library_parse(struct text family, struct text release, struct library *library)
{
    uint64_t numbers[3];
    struct text field;
    bool more = true;
    for (size_t i = 0; i < 3; i++) {
        if (!text_next_field(&release, '.', &more, &field) ||
            text_unsigned(field, &numbers[i]) != TEXT_NUMBER_OK || numbers[i] > MOST_NUMBER) {
            return false;
        }
    }
    *library = (struct library){LIBRARY_UNKNOWN, (uint32_t)numbers[0], (uint32_t)numbers[1],
                                (uint32_t)numbers[2]};
    for (int i = LIBRARY_RCCL; i <= LIBRARY_NCCL; i++) {
        if (text_is(family, family_names[i])) {
            library->family = (enum library_family)i;
        }
    }
    return !more && library->family != LIBRARY_UNKNOWN;
}

bool library_equal(const struct library *one, const struct library *other)
{
    return one->family == other->family && one->major == other->major &&
           one->minor == other->minor && one->patch == other->patch;
}

const char *library_text(const struct library *library, char buffer[LIBRARY_TEXT_SIZE])
{
    if (library->family == LIBRARY_UNKNOWN) {
        return family_names[LIBRARY_UNKNOWN];
    }
    (void)snprintf(buffer, LIBRARY_TEXT_SIZE, "%s %u.%u.%u", family_names[library->family],
                   (unsigned)library->major, (unsigned)library->minor, (unsigned)library->patch);
    return buffer;
}

static enum library_family family_of(const char *name)
{
    if (name == NULL) {
        return LIBRARY_UNKNOWN;
    }
    if (strncmp(name, "librccl", strlen("librccl")) == 0) {
        return LIBRARY_RCCL;
    }
    return strncmp(name, "libnccl", strlen("libnccl")) == 0 ? LIBRARY_NCCL : LIBRARY_UNKNOWN;
}

/* NCCL_VERSION of nccl.h (NCCL 2.28.9, RCCL 2.27.7): three digits for minor and patch up to 2.8,
 * four from 2.9 on. */
static struct library of_code(enum library_family family, uint32_t code)
{
    uint32_t major = code < 10000 ? code / 1000 : code / 10000;
    return (struct library){family, major, code / 100 - major * (code < 10000 ? 10 : 100),
                            code % 100};
}

void library_at(const void *address, struct library *library)
{
    struct loaded_object object;
    get_version_function get_version = NULL;
    int code = 0;
    *library = (struct library){.family = LIBRARY_UNKNOWN};
    if (address == NULL || !loaded_at(address, &object)) {
        return;
    }
    enum library_family family = family_of(object.soname);
    if (family == LIBRARY_UNKNOWN) { /* a framework may have renamed the file, or the soname */
        family = family_of(loaded_file_name(object.path));
    }
    const void *function = loaded_function(&object, "ncclGetVersion");
    memcpy(&get_version, &function, sizeof get_version); /* ISO C has no such cast */
    if (family != LIBRARY_UNKNOWN && get_version != NULL && get_version(&code) == 0 && code > 0) {
        *library = of_code(family, (uint32_t)code);
    }
}
