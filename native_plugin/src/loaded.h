/*
 * Objects that are loaded into this process, and their functions.
 *
 * dlopen and dlsym are avoided on purpose.  They moved from libdl to libc in glibc 2.34, so a
 * library built there would not load on the older systems that ROCm supports; and RTLD_NOLOAD needs
 * the exact soname, of which there is one per major release (libamdhip64.so.5, .6, .7).  Walking
 * the objects that are loaded needs neither; the price is the lookup in an ELF hash table.
 */
#ifndef RCCLTUNE_LOADED_H
#define RCCLTUNE_LOADED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One loaded object.  It is as good as the object: gone when that is unloaded. */
struct loaded_object {
    const char *path;   /* as the loader has it; "" for the program itself */
    const char *soname; /* NULL where it has none */
    uintptr_t base;
    const void *symbols;
    const char *names;
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash; /* 32-bit words on x86-64 and aarch64 */
};

/* Finds the objects whose file names begin with `prefix`; at most `room`, the number is returned.
 */
unsigned loaded_named(const char *prefix, struct loaded_object *found, unsigned room);

/* Finds the object that an address lies in. */
bool loaded_at(const void *address, struct loaded_object *found);

/* The address of a function that an object defines; NULL where it has none of that name. */
const void *loaded_function(const struct loaded_object *object, const char *name);

/* The last part of a path. */
const char *loaded_file_name(const char *path);

#endif
