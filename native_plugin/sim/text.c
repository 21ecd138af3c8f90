#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

struct text text_of(const char *string)
{
    return (struct text){.at = string, .end = string + strlen(string)};
}

size_t text_length(struct text text)
{
    return (size_t)(text.end - text.at);
}

bool text_equals(struct text text, const char *string)
{
    return strlen(string) == text_length(text) && memcmp(text.at, string, text_length(text)) == 0;
}

bool text_split(struct text *rest, char separator, struct text *piece)
{
    if (rest->at == NULL)
        return false;
    const char *found = memchr(rest->at, separator, text_length(*rest));
    *piece = (struct text){.at = rest->at, .end = found != NULL ? found : rest->end};
    /* A NULL start marks the end, so that a trailing separator still gives its empty piece. */
    rest->at = found != NULL ? found + 1 : NULL;
    return true;
}

/* strtoll and strtod want a terminated string; numbers longer than this are mistakes. */
static bool terminate(struct text text, char *out, size_t size)
{
    if (text_length(text) == 0 || text_length(text) >= size)
        return false;
    memcpy(out, text.at, text_length(text));
    out[text_length(text)] = '\0';
    return (out[0] >= '0' && out[0] <= '9') || out[0] == '-';
}

bool text_to_int(struct text text, int64_t min, int64_t max, int64_t *value)
{
    char digits[32], *end;
    if (!terminate(text, digits, sizeof digits))
        return false;
    errno = 0;
    long long number = strtoll(digits, &end, 10);
    if (errno != 0 || *end != '\0' || end == digits || number < min || number > max)
        return false;
    *value = number;
    return true;
}

bool text_to_double(struct text text, double min, double max, double *value)
{
    char digits[64], *end;
    if (!terminate(text, digits, sizeof digits))
        return false;
    errno = 0;
    double number = strtod(digits, &end);
    if (*end != '\0' || end == digits || !isfinite(number) || number < min || number > max)
        return false;
    *value = number;
    return true;
}

bool text_copy(struct text text, char *out, size_t size)
{
    size_t n = 0;
    for (const char *c = text.at; c < text.end; c++) {
        int byte = (unsigned char)*c;
        if (*c == '%') {
            char digits[3] = "";
            memcpy(digits, c + 1, text.end - c < 3 ? 0 : 2);
            if (strspn(digits, "0123456789ABCDEF") != 2)
                return false;
            byte = (int)strtol(digits, NULL, 16);
            c += 2;
        }
        if (byte < 0x20 || byte == 0x7f || n + 1 >= size)
            return false;
        out[n++] = (char)byte;
    }
    if (n >= size)
        return false;
    out[n] = '\0';
    return true;
}

const char *env_text(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

int64_t env_number(const char *name, int64_t otherwise)
{
    const char *value = env_text(name);
    return value != NULL ? strtoll(value, NULL, 0) : otherwise;
}

double env_double(const char *name, double otherwise)
{
    const char *value = env_text(name);
    if (value != NULL && !text_to_double(text_of(value), 0, 1e12, &otherwise))
        sim_fail("%s=%s is no number", name, value);
    return otherwise;
}

FILE *env_append(const char *name)
{
    const char *path = env_text(name);
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    if (path != NULL && file == NULL)
        sim_fail("cannot write to %s", path);
    return file;
}
