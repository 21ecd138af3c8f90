#include "debug.h"

#include "sim.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    int level, info_level, device;
    unsigned long subsystems;
    const char *host;
    FILE *out;
    char last_error[1024];
} debug;

/* In the order of their bits. */
static const char *const subsystem_names[] = {
    "INIT", "COLL",  "P2P",  "SHM",       "NET", "GRAPH",   "TUNING", "ENV", "ALLOC",
    "CALL", "PROXY", "NVLS", "BOOTSTRAP", "REG", "PROFILE", "RAS",    "ALL",
};
enum { N_SUBSYSTEMS = sizeof subsystem_names / sizeof *subsystem_names, ALL = N_SUBSYSTEMS - 1 };

/* A list that begins with ^ takes away from everything; a plain one names all there is. */
static unsigned long read_subsystems(const char *text)
{
    if (text == NULL || *text == '\0')
        return SUBSYS_INIT | SUBSYS_ENV | SUBSYS_BOOTSTRAP;
    bool inverted = *text == '^';
    struct text rest = text_of(inverted ? text + 1 : text), word;
    unsigned long named = 0;
    while (text_split(&rest, ',', &word)) {
        int bit = find_name(word, subsystem_names, N_SUBSYSTEMS, true);
        if (bit >= 0)
            named |= bit == ALL ? ~0ul : 1ul << bit;
    }
    return inverted ? ~named : named;
}

static FILE *open_log(const char *pattern, const char *host)
{
    char path[PATH_MAX];
    size_t n = 0;
    for (const char *c = pattern; *c != '\0' && n + 64 < sizeof path; c++) {
        bool is_host = strncmp(c, "%h", 2) == 0;
        if (!is_host && strncmp(c, "%p", 2) != 0) {
            path[n++] = *c;
            continue;
        }
        if (is_host)
            n += (size_t)snprintf(path + n, sizeof path - n, "%.60s", host);
        else
            n += (size_t)snprintf(path + n, sizeof path - n, "%d", (int)getpid());
        c++;
    }
    path[n] = '\0';
    FILE *file = n > 0 ? fopen(path, "w") : NULL;
    return file != NULL ? file : stdout;
}

void debug_start(const char *host, int device, int info_level)
{
    static const char *const names[] = {"NONE", "ERROR", "VERSION", "WARN",
                                        "INFO", "ABORT", "TRACE"};
    const char *level = getenv("NCCL_DEBUG"), *file = getenv("NCCL_DEBUG_FILE");
    debug.out = stdout;
    debug.host = host;
    debug.device = device;
    debug.info_level = info_level;
    /* RCCL of ROCm 7.2 and later prints errors without being asked. */
    debug.level = info_level > 3 ? LEVEL_ERROR : LEVEL_NONE;
    if (level != NULL) {
        int found = find_name(text_of(level), names, 7, true);
        debug.level = found < 0 ? LEVEL_NONE : found;
    }
    debug.subsystems = read_subsystems(getenv("NCCL_DEBUG_SUBSYS"));
    if (file != NULL && debug.level > LEVEL_VERSION)
        debug.out = open_log(file, host);
    if (debug.out != stdout)
        setvbuf(debug.out, NULL, _IOLBF, 1 << 16);
}

void debug_restart(void)
{
    if (debug.host == NULL) /* not yet started: it will read the environment then */
        return;
    if (debug.out != stdout)
        fclose(debug.out);
    debug_start(debug.host, debug.device, debug.info_level);
}

bool debug_at(int level)
{
    return debug.level >= level;
}

/* Printed where the level and a subsystem are asked for; warnings and errors are of all subsystems,
 * and name the line that they come from. */
static void print_line(int level, unsigned long subsystems, const char *file, int line,
                       const char *format, va_list list)
{
    char text[2048];
    bool warns = level == LEVEL_WARN || level == LEVEL_ERROR;
    if (debug.level < level || (!warns && (debug.subsystems & subsystems) == 0))
        return;
    vsnprintf(text, sizeof text, format, list);
    if (warns)
        fprintf(debug.out, "\n%s:%d:%d [%d] %s:%d NCCL WARN %s\n", debug.host, (int)getpid(),
                (int)syscall(SYS_gettid), debug.device, file, line, text);
    else
        fprintf(debug.out, "%s:%d:%d [%d] NCCL INFO %s\n", debug.host, (int)getpid(),
                (int)syscall(SYS_gettid), debug.device, text);
}

void debug_info(unsigned long subsystems, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    print_line(LEVEL_INFO, subsystems, NULL, 0, format, list);
    va_end(list);
}

void debug_warn(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(debug.last_error, sizeof debug.last_error, format, list);
    va_end(list);
    va_start(list, format);
    print_line(LEVEL_WARN, 0, "simulated.cc", 0, format, list);
    va_end(list);
}

const char *debug_last_error(void)
{
    return debug.last_error;
}

void debug_logger(int level, unsigned long subsystems, const char *file, int line,
                  const char *format, ...)
{
    /* RCCL 2.28.3 put ERROR at 1 and moved the rest up by one: a plugin built for the old numbers
     * says INFO and the library hears WARN. */
    int meant = debug.info_level > 3 || level == 0 ? level : level + 1;
    va_list list;
    va_start(list, format);
    print_line(meant, subsystems, file, line, format, list);
    va_end(list);
}

void debug_version(const char *text)
{
    if (debug.level < LEVEL_VERSION)
        return;
    fputs(text, stdout);
    fflush(stdout);
    if (debug.out != stdout)
        fputs(text, debug.out);
}
