#include "rows.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int file = -1;
static char path[PATH_MAX];
/* Lines that nobody took with rows_kept() yet. */
static bool keeps;
static char *kept;
static size_t n_kept, room_for_kept;

struct row row_of(int communicator, const char *step)
{
    return (struct row){.communicator = communicator,
                        .step = step,
                        .time_us = -1,
                        .made = -1,
                        .asked = -1,
                        .told_bytes = -1,
                        .registered = -1,
                        .checked = -1,
                        .wrong = -1,
                        .trees = -1,
                        .note = ""};
}

/* One write a line: a process that is killed loses the line that it is writing, no other. */
static bool put(const char *text, size_t length)
{
    while (length > 0) {
        ssize_t n = write(file, text, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        text += n;
        length -= (size_t)n;
    }
    return true;
}

static void keep(const char *text, size_t length)
{
    if (n_kept + length > room_for_kept) {
        size_t room = 2 * (n_kept + length);
        char *more = realloc(kept, room);
        if (more == NULL)
            fail(EXIT_ROWS, "no memory for %zu bytes of rows", room);
        kept = more;
        room_for_kept = room;
    }
    memcpy(kept + n_kept, text, length);
    n_kept += length;
}

static void put_or_fail(const char *text, size_t length)
{
    if (!put(text, length)) {
        int error = errno;
        file = -1; /* not even the last word */
        fail(EXIT_ROWS, "cannot write %s: %s", path, strerror(error));
    }
    if (keeps)
        keep(text, length);
}

void rows_open(const char *folder, int rank)
{
    snprintf(path, sizeof path, "%s/rank-%d.csv", folder, rank);
    file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0)
        fail(EXIT_ROWS, "cannot make %s: %s", path, strerror(errno));
    rows_remark("rccltune-perf 1");
}

void rows_remark(const char *format, ...)
{
    char line[4096] = "# ";
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line + 2, sizeof line - 3, format, arguments);
    va_end(arguments);
    int length = 2 + (n < (int)sizeof line - 4 ? n : (int)sizeof line - 4);
    for (int i = 0; i < length; i++)
        line[i] = line[i] == '\n' || line[i] == '\r' || line[i] == '\t' ? ' ' : line[i];
    line[length++] = '\n';
    put_or_fail(line, (size_t)length);
}

void rows_head(void)
{
    static const char head[] = "line,communicator,step,nbytes,calls,time_us,made,asked,told_bytes,"
                               "library,answer,registered,selectable,ran,checked,wrong,trees,tree,"
                               "signature,bits,note\n";
    put_or_fail(head, sizeof head - 1);
}

/* A line that is being made: what does not fit is left out, its end always fits. */
struct line {
    char text[1024];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    size_t room = sizeof line->text - 1 - line->length; /* 1: for the end of the line */
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line->text + line->length, room, format, arguments);
    va_end(arguments);
    line->length += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

/* A number and the comma behind it; nothing but the comma where it is not known. */
static void add_number(struct line *line, int64_t number)
{
    if (number >= 0)
        add(line, "%" PRId64, number);
    add(line, ",");
}

void rows_write(const struct row *row)
{
    struct line line = {.length = 0};
    char note[200];
    bool is_told = row->asked > 0;
    add(&line, "%d,%d,%s,%zu,%ld,", context.line, row->communicator, row->step, row->n_bytes,
        row->calls);
    if (row->time_us >= 0)
        add(&line, "%.4f", row->time_us);
    add(&line, ",");
    add_number(&line, row->made);
    add_number(&line, row->asked);
    add_number(&line, is_told ? row->told_bytes : -1);
    add(&line, "%s,%s,", row->library, row->answer);
    add_number(&line, is_told ? row->registered : -1);
    if (is_told)
        add(&line, "%" PRIx64, row->selectable);
    add(&line, ",%s,", row->ran);
    add_number(&line, row->checked);
    add_number(&line, row->wrong);
    add_number(&line, row->trees);
    if (row->trees >= 0)
        add(&line, "%016" PRIx64 ",%016" PRIx64 ",%016" PRIx64 ",", row->tree, row->signature,
            row->bits);
    else
        add(&line, ",,,");
    snprintf(note, sizeof note, "%s", row->note);
    for (char *c = note; *c != '\0'; c++)
        *c = *c == ',' || *c == '\n' || *c == '\r' || *c == '"' || *c == '\t' ? ' ' : *c;
    add(&line, "%s", note);
    line.text[line.length++] = '\n';
    put_or_fail(line.text, line.length);
}

void rows_keep(void)
{
    keeps = true;
}

const char *rows_kept(size_t *length)
{
    *length = n_kept;
    n_kept = 0;
    return kept;
}

void rows_last_word(int line, const char *words)
{
    char text[2048];
    int n = snprintf(text, sizeof text - 1, "# failed %d %s", line, words);
    int length = n < (int)sizeof text - 2 ? n : (int)sizeof text - 2;
    for (int i = 0; i < length; i++)
        text[i] = text[i] == '\n' || text[i] == '\r' ? ' ' : text[i];
    text[length++] = '\n';
    if (file >= 0)
        (void)put(text, (size_t)length);
}
