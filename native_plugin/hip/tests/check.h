/* The least that a C test needs: say where, go on, fail at the end. */
#ifndef RCCLTUNE_HIP_CHECK_H
#define RCCLTUNE_HIP_CHECK_H

#include <stdio.h>

static int check_failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s is not so\n", __FILE__, __LINE__, #condition);              \
            check_failures++;                                                                      \
        }                                                                                          \
    } while (0)

#endif
