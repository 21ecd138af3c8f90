/*
 * Text as a pointer and a length.
 *
 * Everything the plugin reads (rule files, sysfs, environment) goes through these few functions, so
 * that no parser ever walks a raw pointer, depends on a terminating NUL or on the locale, or merges
 * empty fields as strtok does.
 */
#ifndef RCCLTUNE_TEXT_H
#define RCCLTUNE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of text; `at` may be anything when `left` is 0. */
struct text {
    const char *at;
    size_t left;
};

/* Outcome of reading a number. */
enum text_number {
    TEXT_NUMBER_OK,
    TEXT_NUMBER_NONE,    /* not a number: empty, a sign alone, or other characters in it */
    TEXT_NUMBER_TOO_BIG, /* a number, but it does not fit */
};

/* The text of a C string; NULL gives empty text. */
struct text text_of(const char *string);

/* `text` without blanks (space, tab, carriage return) at either end. */
struct text text_trim(struct text text);

/* Takes the next line off `rest`, without its line feed (a carriage return stays; text_trim removes
 * it).  False when nothing is left; a last line without a line feed counts. */
bool text_next_line(struct text *rest, struct text *line);

/* Takes the next field, up to `separator` or the end, off `rest` and trims it.  Empty fields count.
 * `more` must start true; it becomes false with the last field, and then the next call returns
 * false. */
bool text_next_field(struct text *rest, char separator, bool *more, struct text *field);

/* Takes the next run of non-blank characters off `rest`; false when only blanks are left. */
bool text_next_word(struct text *rest, struct text *word);

/* Splits `text` at the first `separator` into what is before and what is after; false, and neither
 * touched, where there is none. */
bool text_split(struct text text, char separator, struct text *before, struct text *after);

/* Whether `text` is exactly `word`, letter case included. */
bool text_is(struct text text, const char *word);

/* Whether `text` is `word` but for the case of ASCII letters. */
bool text_is_in_any_case(struct text text, const char *word);

/* Whether `text` begins with `prefix`; if so the prefix is taken off. */
bool text_skip(struct text *text, const char *prefix);

/* Reads all of `text` as a decimal number from 0 to 2^64-1. */
enum text_number text_unsigned(struct text text, uint64_t *value);

/* Reads all of `text` as a decimal number, with an optional '-', that fits 64 bits. */
enum text_number text_signed(struct text text, int64_t *value);

/* Reads all of `text` as a hexadecimal number with an optional 0x. */
enum text_number text_hex(struct text text, uint64_t *value);

/* Copies `text` into `buffer` as a C string; false, and an empty string, where it does not fit. */
bool text_copy(struct text text, char *buffer, size_t size);

/* The line of the first character that no text file has, from 1; 0 when there is none. */
uint32_t text_first_binary_line(struct text text);

#endif
