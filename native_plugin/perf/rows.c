#include "rows.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int file = -1;
static char path[PATH_MAX];

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

static void put_or_fail(const char *text, int length)
{
    if (!put(text, (size_t)length)) {
        int error = errno;
        file = -1; /* not even the last word */
        fail(EXIT_ROWS, "cannot write %s: %s", path, strerror(error));
    }
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
        line[i] = line[i] == '\n' || line[i] == '\r' ? ' ' : line[i];
    line[length++] = '\n';
    put_or_fail(line, length);
}

void rows_head(void)
{
    static const char head[] = "line,communicator,step,nbytes,calls,time_us,made,asked,told_bytes,"
                               "library,answer,registered,selectable,ran,checked,wrong,note\n";
    put_or_fail(head, (int)sizeof head - 1);
}

/* A number and the comma behind it; nothing but the comma where it is not known. */
static void add(char *line, size_t size, int *n, int64_t number)
{
    if (number >= 0)
        *n += snprintf(line + *n, size - (size_t)*n, "%" PRId64, number);
    *n += snprintf(line + *n, size - (size_t)*n, ",");
}

void rows_write(const struct row *row)
{
    char line[1024], note[200];
    bool is_told = row->asked > 0;
    int n = snprintf(line, sizeof line, "%d,%d,%s,%zu,%ld,", context.line, row->communicator,
                     row->step, row->n_bytes, row->calls);
    if (row->time_us >= 0)
        n += snprintf(line + n, sizeof line - (size_t)n, "%.4f", row->time_us);
    n += snprintf(line + n, sizeof line - (size_t)n, ",");
    add(line, sizeof line, &n, row->made);
    add(line, sizeof line, &n, row->asked);
    add(line, sizeof line, &n, is_told ? row->told_bytes : -1);
    n += snprintf(line + n, sizeof line - (size_t)n, "%s,%s,", row->library, row->answer);
    add(line, sizeof line, &n, is_told ? row->registered : -1);
    if (is_told)
        n += snprintf(line + n, sizeof line - (size_t)n, "%" PRIx64, row->selectable);
    n += snprintf(line + n, sizeof line - (size_t)n, ",%s,", row->ran);
    add(line, sizeof line, &n, row->checked);
    add(line, sizeof line, &n, row->wrong);
    snprintf(note, sizeof note, "%s", row->note);
    for (char *c = note; *c != '\0'; c++)
        *c = *c == ',' || *c == '\n' || *c == '\r' || *c == '"' ? ' ' : *c;
    n += snprintf(line + n, sizeof line - (size_t)n, "%s\n", note);
    put_or_fail(line, n);
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
