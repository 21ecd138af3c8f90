#include "output.h"

#include "nosignal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FILE_MODE = 0644,
    N_DRAFTS = 100, /* names to try */
    DRAFT_SIZE = OUTPUT_PATH_SIZE + 64,
    MARK_SIZE = 1024, /* what is looked at of a file that exists */
    MESSAGE_SIZE = OUTPUT_PATH_SIZE + 2048,
    /* No link, no wait for a reader, no terminal of ours. */
    OPEN_FLAGS = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
};

static const char no_regular_file[] = "it is no regular file";

static bool make_room(struct lines *lines, size_t more)
{
    if (lines->room - lines->used > more) {
        return true;
    }
    size_t room = 2 * lines->room + more + 256;
    char *bigger = realloc(lines->at, room);
    if (bigger == NULL) {
        lines->failed = true;
        return false;
    }
    lines->at = bigger;
    lines->room = room;
    return true;
}

void lines_add(struct lines *lines, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0 || !make_room(lines, (size_t)length)) {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(lines->at + lines->used, lines->room - lines->used, format, arguments);
    va_end(arguments);
    lines->used += (size_t)length;
}

void lines_free(struct lines *lines)
{
    free(lines->at);
    *lines = (struct lines){.at = NULL};
}

/* What one % sequence stands for; NULL for an unknown one. */
static const char *expansion(char letter, const char *comm, unsigned context, char *buffer,
                             size_t size)
{
    switch (letter) {
    case 'h':
        if (gethostname(buffer, size) != 0) {
            return "unknown-host";
        }
        buffer[size - 1] = '\0';
        for (char *at = buffer; *at != '\0'; at++) { /* a word of a line, and of a file's name */
            *at = *at > ' ' && *at < 0x7f && *at != '/' ? *at : '-';
        }
        return buffer;
    case 'p':
        (void)snprintf(buffer, size, "%ld", (long)getpid());
        return buffer;
    case 'c':
        return comm;
    case 'n':
        (void)snprintf(buffer, size, "%u", context);
        return buffer;
    case '%':
        return "%";
    default:
        return NULL;
    }
}

bool output_name(const char *pattern, const char *comm, unsigned context, char *buffer, size_t size)
{
    char scratch[256];
    char plain[2] = {0};
    size_t used = 0;
    for (const char *at = pattern; *at != '\0'; at++) {
        const char *piece = plain;
        plain[0] = *at;
        if (*at == '%') {
            at++;
            piece = expansion(*at, comm, context, scratch, sizeof scratch);
        }
        if (piece == NULL || strlen(piece) >= size - used) {
            return false;
        }
        memcpy(buffer + used, piece, strlen(piece) + 1);
        used += strlen(piece);
    }
    return used > 0;
}

static const char *words_for(int error)
{
    switch (error) {
    case ELOOP:
        return "it is a symbolic link, and none is followed";
    case ENXIO: /* a pipe without a reader, a socket */
    case ENODEV:
    case EISDIR:
        return no_regular_file;
    case ENOENT:
    case ENOTDIR:
        return "there is no such folder";
    case EACCES:
    case EPERM:
    case EROFS:
        return "it is not allowed";
    case ENOSPC:
    case EDQUOT:
        return "the disk is full";
    case EFBIG:
        return "files may not become that large (ulimit -f)";
    default:
        return "writing failed";
    }
}

/* Makes a file of a new name beside `path`, so that no other is touched. */
static int open_draft(const char *path, char draft[DRAFT_SIZE])
{
    static atomic_uint serial;
    int fd = -1;
    errno = EEXIST;
    for (int i = 0; i < N_DRAFTS && fd < 0 && errno == EEXIST; i++) {
        (void)snprintf(draft, DRAFT_SIZE, "%s.%ld-%u.tmp", path, (long)getpid(),
                       atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed));
        fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | OPEN_FLAGS, FILE_MODE);
    }
    return fd;
}

/* Writes a draft and closes it; false, with errno, where it is not whole. */
static bool fill(int fd, struct text content)
{
    bool written = nosignal_write(fd, content);
    int error = errno;
    bool closed = close(fd) == 0;
    errno = written ? errno : error;
    return written && closed;
}

/* Makes `path` appear with `header` in it, unless it exists.  A link to a finished file does that
 * even when many processes try at once; file systems without links get the small risk of a late
 * header. */
static const char *create_with_header(const char *path, const char *header)
{
    char draft[DRAFT_SIZE];
    int fd = open_draft(path, draft);
    if (fd < 0) {
        return words_for(errno);
    }
    const char *trouble = fill(fd, text_of(header)) ? NULL : words_for(errno);
    if (trouble == NULL && link(draft, path) != 0 && errno != EEXIST) {
        int direct = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | OPEN_FLAGS, FILE_MODE);
        bool done = direct >= 0 ? fill(direct, text_of(header)) : errno == EEXIST;
        trouble = done ? NULL : words_for(errno);
    }
    (void)unlink(draft);
    return trouble;
}

/* Why an open file may not be appended to, or NULL; `*is_empty` tells whether a header is due. */
static const char *objection(int fd, const char *header, bool *is_empty)
{
    const char *mark = header[0] != '\0' ? header : "rccltune: ";
    char begin[MARK_SIZE];
    if (!is_regular_file(fd)) {
        return no_regular_file;
    }
    size_t wanted = strlen(mark) < sizeof begin ? strlen(mark) : sizeof begin;
    ssize_t got = pread(fd, begin, wanted, 0);
    *is_empty = got == 0;
    if (got < 0 || memcmp(begin, mark, (size_t)got) != 0) {
        return "it is there, and holds something else";
    }
    return NULL;
}

/* Appends to a file that is there; `*missing` tells that it is not. */
static const char *append_to(const char *path, const char *header, struct text content,
                             bool *missing)
{
    bool is_empty = false;
    int fd = open(path, O_RDWR | O_APPEND | OPEN_FLAGS);
    *missing = fd < 0 && errno == ENOENT;
    if (fd < 0) {
        return words_for(errno);
    }
    const char *trouble = objection(fd, header, &is_empty);
    if (trouble == NULL && is_empty && !nosignal_write(fd, text_of(header))) {
        trouble = words_for(errno);
    }
    if (trouble != NULL) {
        (void)close(fd);
        return trouble;
    }
    return fill(fd, content) ? NULL : words_for(errno);
}

const char *output_append(const char *path, const char *header, struct text content)
{
    bool missing = false;
    const char *trouble = append_to(path, header, content, &missing);
    if (missing) {
        trouble = create_with_header(path, header);
        trouble = trouble == NULL ? append_to(path, header, content, &missing) : trouble;
    }
    return trouble;
}

const char *output_replace(const char *path, struct text content)
{
    char draft[DRAFT_SIZE];
    int fd = open_draft(path, draft);
    if (fd < 0) {
        return words_for(errno);
    }
    if (fill(fd, content) && rename(draft, path) == 0) {
        return NULL;
    }
    const char *trouble = words_for(errno);
    (void)unlink(draft);
    return trouble;
}

void output_tell(struct text content)
{
    char piece[MESSAGE_SIZE];
    bool told = true;
    while (content.left > 0 && told) {
        size_t size = content.left < sizeof piece ? content.left : sizeof piece;
        for (size_t i = 0; i < size; i++) {
            unsigned char c = (unsigned char)content.at[i];
            piece[i] = (c < ' ' && c != '\n') || c == 0x7f ? '?' : content.at[i];
        }
        told = nosignal_stderr((struct text){piece, size});
        content.at += size;
        content.left -= size;
    }
}

void output_say(const char *format, ...)
{
    char message[MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (length > 0) {
        size_t size = (size_t)length < sizeof message ? (size_t)length : sizeof message - 1;
        output_tell((struct text){message, size});
    }
}
