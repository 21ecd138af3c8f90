#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "perf.h"
#include "rows.h"

struct context context = {.rank = -1};

void fail(enum exit_code code, const char *format, ...)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    char words[1536];
    va_list arguments;
    pthread_mutex_lock(&once); /* the first word counts; it is never given back */
    int of_host = 0;
    if (*context.host != '\0')
        of_host = snprintf(words, sizeof words, "%s: ", context.host);
    va_start(arguments, format);
    vsnprintf(words + of_host, sizeof words - (size_t)of_host, format, arguments);
    va_end(arguments);
    char who[32] = "", where[48] = "", line[1792];
    if (context.rank >= 0)
        snprintf(who, sizeof who, "rank %d: ", context.rank);
    if (context.line > 0)
        snprintf(where, sizeof where, "line %d of the plan: ", context.line);
    /* One write: the words of 64 ranks must not be mixed. */
    int n = snprintf(line, sizeof line, "rccltune-perf: %s%s%s\n", who, where, words);
    (void)!write(STDERR_FILENO, line, (size_t)n);
    rows_last_word(context.line, words);
    _exit((int)code);
}
