/*
 * The library that asks us: RCCL or NCCL, and its release.
 *
 * Both have ncclGetVersion and numbers that overlap, so the number alone does not tell them apart;
 * their sonames do (librccl.so.1, libnccl.so.2).  Where the library is linked into a program or
 * into a framework's own library there is no such name, and it is unknown.
 */
#ifndef RCCLTUNE_LIBRARY_H
#define RCCLTUNE_LIBRARY_H

#include "text.h"

enum library_family { LIBRARY_UNKNOWN, LIBRARY_RCCL, LIBRARY_NCCL };

/* A release of a library, 2.28.9. */
struct library {
    enum library_family family;
    uint32_t major;
    uint32_t minor;
    uint32_t patch;
};

enum { LIBRARY_TEXT_SIZE = 48 };

/* Reads `RCCL` or `NCCL` and three numbers with dots between them, the last two below 100. */
bool library_parse(struct text family, struct text release, struct library *library);

/* Whether two are one release of one family. */
bool library_equal(const struct library *one, const struct library *other);

/* Writes `NCCL 2.28.9`; "?" where it is unknown. */
const char *library_text(const struct library *library, char buffer[LIBRARY_TEXT_SIZE]);

/* Works out which library an address lies in, and asks it for its number.  Unknown where `address`
 * is NULL or in no library of that name. */
void library_at(const void *address, struct library *library);

#endif
