/*
 * Text that leaves the plugin: growing buffers, file names with %h %p %c %n, whole appends.
 *
 * Whatever is written can fail, and a name may lead to a trap: no link is followed, nothing waits,
 * nobody else's file is touched, and the job goes on (nosignal.h).
 */
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

/* A communicator as files and lines of the log name it. */
struct output_comm {
    const char *id;
    uint64_t n_nodes;
    uint64_t n_ranks;
    unsigned abi;
    unsigned context; /* this process's contexts are counted from 0: ranks of one process differ */
};

/* Outcome of the beginning of something that is written. */
enum output_start {
    OUTPUT_STARTED,
    OUTPUT_CANNOT,    /* its file cannot be written */
    OUTPUT_NO_MEMORY, /* possibly on this rank alone */
};

/* Appends `content` to the file `path` with one write, so that lines of several processes do not
 * mix.  A file that does not exist appears with `header` already in it.  One that exists must be
 * regular, no symbolic link, and empty or begun by this plugin: with `header`, or with a line of
 * the log where that is "".  NULL when it is written, else why not, in a few words. */
const char *output_append(const char *path, const char *header, struct text content);

/* Puts `content` into the file `path` in place of what is there, a link too: a reader sees the one
 * or the other, whole.  NULL, or why not. */
const char *output_replace(const char *path, struct text content);

/* Tells stderr.  Control characters but line feeds become question marks: names and rules may have
 * what a terminal takes for orders. */
void output_tell(struct text content);

/* Tells one message, for which no memory is needed. */
__attribute__((format(printf, 1, 2))) void output_say(const char *format, ...);

#endif
