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
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    if (context.rank >= 0)
        fprintf(stderr, "rccltune-perf: rank %d: ", context.rank);
    else
        fprintf(stderr, "rccltune-perf: ");
    if (context.line > 0)
        fprintf(stderr, "line %d of the plan: ", context.line);
    fprintf(stderr, "%s\n", words);
    rows_last_word(context.line, words);
    fflush(stderr);
    _exit((int)code);
}
