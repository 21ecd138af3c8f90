/* The least that a C test needs: say where, go on, fail at the end. */
#ifndef RCCLTUNE_SIM_CHECK_H
#define RCCLTUNE_SIM_CHECK_H

#include <stdio.h>

static int check_failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s is not so\n", __FILE__, __LINE__, #condition);              \
            check_failures++;                                                                      \
        }                                                                                          \
    } while (0)

#define CHECK_NEAR(value, expected, tolerance)                                                     \
    do {                                                                                           \
        double check_value = (value), check_expected = (expected);                                 \
        if (!(check_value - check_expected <= (tolerance) &&                                       \
              check_expected - check_value <= (tolerance))) {                                      \
            fprintf(stderr, "%s:%d: %s is %.9g, not %.9g\n", __FILE__, __LINE__, #value,           \
                    check_value, check_expected);                                                  \
            check_failures++;                                                                      \
        }                                                                                          \
    } while (0)

#endif
