/* Text that leaves the plugin: growing buffers, file names with %h %p %c %n, whole appends. */
#ifndef RCCLTUNE_OUTPUT_H
#define RCCLTUNE_OUTPUT_H

#include "text.h"

enum { OUTPUT_PATH_SIZE = 4096 };

/* A growing buffer of text.  After an allocation failed it stays as it was and `failed` is set. */
struct lines {
    char *at;
    size_t used;
    size_t room;
    bool failed;
};

/* Appends formatted text, all of it or nothing. */
__attribute__((format(printf, 2, 3))) void lines_add(struct lines *lines, const char *format, ...);

/* Releases the buffer. */
void lines_free(struct lines *lines);

/* Fills in a file-name pattern: %h the host's name, %p the process id, %c `comm`, %n `context`, %%
 * a percent sign.  False where it is malformed or does not fit. */
bool output_name(const char *pattern, const char *comm, unsigned context, char *buffer,
                 size_t size);

/* Appends `content` to the file `path` with one write, so that lines of several processes do not
 * mix; NULL is stderr.  A file that does not exist appears with `header` already in it.  False on
 * failure. */
bool output_append(const char *path, const char *header, struct text content);

/* Puts `content` into the file `path` in place of what is there: a reader sees the one or the
 * other, whole.  False on failure. */
bool output_replace(const char *path, struct text content);

#endif
