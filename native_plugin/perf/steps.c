#include "steps.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous.h"
#include "rows.h"

enum { BETWEEN_RANKS = '\t', BETWEEN_LINES = 30 };

static const char *path; /* NULL where rccltune leads */
static FILE *file;
static bool is_first;
static int line;

static struct {
    char *text;
    size_t length, room;
} answer;

void steps_open(const char *plan, int rank)
{
    path = plan;
    is_first = rank == 0;
    if (path == NULL)
        rows_keep();
    else if (is_first && (file = fopen(path, "re")) == NULL)
        fail(EXIT_USAGE, "%s: %s", path, strerror(errno));
}

static bool read_line(char *text, size_t size)
{
    if (path == NULL)
        return rendezvous_read_line(text, size);
    if (fgets(text, (int)size, file) == NULL)
        return false;
    if (strchr(text, '\n') == NULL) {
        context.line = line + 1;
        fail(EXIT_USAGE, "the line is cut or too long");
    }
    return true;
}

bool steps_next(struct step *step)
{
    /* One message, since each of them wakes every rank. */
    static struct {
        struct step step;
        int line;
        bool is_there;
    } next;
    char text[MAX_STEP];
    bool is_step = false;
    while (is_first && !is_step && (next.is_there = read_line(text, sizeof text))) {
        next.line = ++line;
        is_step = step_read(text, next.line, &next.step);
    }
    rendezvous_broadcast(&next, sizeof next);
    *step = next.step;
    if (next.is_there && step->kind != STEP_END) {
        context.line = next.line;
        line = next.line;
        return true;
    }
    context.line = 0;
    if (!next.is_there && path == NULL)
        fail(EXIT_PEER, "rccltune is gone");
    return false;
}

static void add_to_answer(int rank, const char *text, size_t length)
{
    if (answer.length + length + 2 > answer.room) {
        answer.room = 2 * (answer.length + length + 2);
        answer.text = realloc(answer.text, answer.room);
        if (answer.text == NULL)
            fail(EXIT_ROWS, "no memory for %zu bytes of rows", answer.room);
    }
    if (rank > 0)
        answer.text[answer.length++] = BETWEEN_RANKS;
    for (size_t i = 0; i < length; i++)
        answer.text[answer.length++] = text[i] == '\n' ? BETWEEN_LINES : text[i];
}

void steps_done(void)
{
    size_t length;
    if (path != NULL)
        return;
    const char *text = rows_kept(&length);
    rendezvous_collect(text, length, add_to_answer);
    if (!is_first)
        return;
    answer.text[answer.length++] = '\n';
    rendezvous_answer(answer.text, answer.length);
    answer.length = 0;
}
