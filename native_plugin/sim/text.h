/*
 * A cursor over text that never reads past its end: all text that comes from a file or from the
 * environment goes through it, so that there is one place to get the bounds right.
 */
#ifndef RCCLTUNE_SIM_TEXT_H
#define RCCLTUNE_SIM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct text {
    const char *at, *end;
};

struct text text_of(const char *string); /* of a terminated string */
size_t text_length(struct text text);
bool text_equals(struct text text, const char *string);

/* Take off what stands before the first `separator` (or all of it); false when nothing is left.
 * "a,,b" gives a, an empty text, b; "" gives nothing. */
bool text_split(struct text *rest, char separator, struct text *piece);

/* The whole text as a number: no blanks, nothing behind it, within the bounds given. */
bool text_to_int(struct text text, int64_t min, int64_t max, int64_t *value);
bool text_to_double(struct text text, double min, double max, double *value);

/* A variable's text, NULL where it is unset or empty; as a whole number in C's notations; as a
 * number that must be none below zero, or the program ends. */
const char *env_text(const char *name);
int64_t env_number(const char *name, int64_t otherwise);
double env_double(const char *name, double otherwise);
/* The file that a variable names, to write behind what it holds; NULL where it names none. */
FILE *env_append(const char *name);

/* Copy, undoing %XX; false where it does not fit, holds a control character or a bad escape. */
bool text_copy(struct text text, char *out, size_t size);

#endif
