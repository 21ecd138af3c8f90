/* Checks for the C tests: a failed one is printed and counted, the test goes on. */
#ifndef RCCLTUNE_CHECK_H
#define RCCLTUNE_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_failures;

/* Fails the test, with the place, when `condition` is false. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_failures++;                                                                      \
            (void)fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);          \
        }                                                                                          \
    } while (0)

/* Fails the test when two C strings differ. */
#define CHECK_STRING(got, wanted) check_string(__FILE__, __LINE__, (got), (wanted))

static inline void check_string(const char *file, int line, const char *got, const char *wanted)
{
    if (strcmp(got, wanted) != 0) {
        check_failures++;
        (void)fprintf(stderr, "%s:%d: got '%s', wanted '%s'\n", file, line, got, wanted);
    }
}

/* The exit status of a test: use as `return check_result();`. */
static inline int check_result(void)
{
    if (check_failures > 0) {
        (void)fprintf(stderr, "%d checks failed\n", check_failures);
    }
    return check_failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
