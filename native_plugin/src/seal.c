#include "seal.h"

#include <stdio.h>
#include <string.h>

bool seal_read(struct seal *seal, struct text word, struct text rest, uint32_t line)
{
    if (text_is(word, "rules")) {
        seal->n_heads++;
        seal->head = text_trim(rest);
    } else if (text_is(word, "end")) {
        seal->n_ends++;
        seal->end = text_trim(rest);
        seal->n_rows_at_end = seal->n_rows;
    } else {
        return false;
    }
    seal->line = line;
    return true;
}

static bool is_number(struct text text, uint64_t wanted)
{
    uint64_t number = 0;
    return text_unsigned(text, &number) == TEXT_NUMBER_OK && number == wanted;
}

bool seal_holds(const struct seal *seal)
{
    bool declares = seal->n_heads > 0 || seal->n_ends > 0;
    return !declares ||
           (seal->n_heads == 1 && seal->n_ends == 1 && is_number(seal->head, seal->n_rows) &&
            is_number(seal->end, seal->n_rows) && seal->n_rows_at_end == seal->n_rows);
}

/* What one of the lines says, in words. */
static void quote(unsigned times, struct text said, char *buffer, size_t size)
{
    if (times == 0) {
        (void)snprintf(buffer, size, "is missing");
    } else if (times > 1) {
        (void)snprintf(buffer, size, "is there %u times", times);
    } else {
        (void)snprintf(buffer, size, "says '%.*s'", said.left > 20 ? 20 : (int)said.left, said.at);
    }
}

void seal_explain(const struct seal *seal, char *buffer, size_t size)
{
    char head[40];
    char end[40];
    quote(seal->n_heads, seal->head, head, sizeof head);
    quote(seal->n_ends, seal->end, end, sizeof end);
    uint64_t below = seal->n_ends > 0 ? seal->n_rows - seal->n_rows_at_end : 0;
    (void)snprintf(buffer, size,
                   "'#@ rules' %s, '#@ end' %s, and there are %llu rows, %llu below the end: cut, "
                   "or edited by hand (then: rccltune seal FILE)",
                   head, end, (unsigned long long)seal->n_rows, (unsigned long long)below);
}

bool seal_is_stump(struct text content)
{
    static const char begin[] = "#@ rules"; /* from here on seal_holds knows */
    return content.left < sizeof begin - 1 &&
           (content.left == 0 || memcmp(content.at, begin, content.left) == 0);
}
