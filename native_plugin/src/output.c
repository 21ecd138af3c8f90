#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MODE = 0644 };

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

static bool write_all(int fd, struct text content)
{
    while (content.left > 0) {
        ssize_t written = write(fd, content.at, content.left);
        if (written < 0 && errno != EINTR) {
            return false;
        }
        content.at += written > 0 ? written : 0;
        content.left -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

/* Makes `path` appear with `header` in it, unless it exists.  A link to a finished file does that
 * even when many processes try at once; file systems without links get the small risk of a late
 * header. */
static bool create_with_header(const char *path, const char *header)
{
    static atomic_uint serial;
    char draft[OUTPUT_PATH_SIZE + 64];
    (void)snprintf(draft, sizeof draft, "%s.%ld-%u.tmp", path, (long)getpid(),
                   atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed));
    int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    bool done = fd >= 0 && write_all(fd, text_of(header));
    if (fd >= 0) {
        (void)close(fd);
    }
    if (done && link(draft, path) != 0 && errno != EEXIST) {
        int direct = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
        done = direct >= 0 ? write_all(direct, text_of(header)) : errno == EEXIST;
        if (direct >= 0) {
            (void)close(direct);
        }
    }
    if (fd >= 0) {
        (void)unlink(draft);
    }
    return done;
}

bool output_append(const char *path, const char *header, struct text content)
{
    if (path == NULL) {
        return write_all(STDERR_FILENO, content);
    }
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && create_with_header(path, header)) {
        fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    }
    if (fd < 0) {
        return false;
    }
    bool done = write_all(fd, content);
    return close(fd) == 0 && done;
}

bool output_replace(const char *path, struct text content)
{
    char draft[OUTPUT_PATH_SIZE + 64];
    (void)snprintf(draft, sizeof draft, "%s.tmp", path);
    int fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, FILE_MODE);
    if (fd < 0) {
        return false;
    }
    bool done = write_all(fd, content);
    done = close(fd) == 0 && done && rename(draft, path) == 0;
    if (!done) {
        (void)unlink(draft);
    }
    return done;
}
