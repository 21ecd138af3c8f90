#include "envlist.h"

#include <string.h>

#include "debug.h"
#include "text.h"

/* The words of one list; false at an unknown one. */
static bool read_list(struct text list, const char *const *names, int n, uint8_t *mask)
{
    bool all_known = true;
    uint8_t all = (uint8_t)((1u << n) - 1), named = 0;
    bool inverted = text_length(list) > 0 && *list.at == '^';
    struct text word;
    list.at += inverted;
    while (text_split(&list, ',', &word)) {
        if (text_length(word) == 0) /* strtok knows no empty words */
            continue;
        int found = find_name_any_case(word.at, text_length(word), names, n);
        if (found >= 0)
            named |= (uint8_t)(1u << found);
        else
            all_known = false;
    }
    *mask = inverted ? (uint8_t)(all & ~named) : named;
    return all_known;
}

static int bad(const char *what, struct text entry, const char *text)
{
    debug_warn("%s \"%.*s\" when parsing \"%s\"", what, (int)text_length(entry), entry.at, text);
    return NCCL_INVALID_USAGE;
}

int envlist_read(const char *text, bool per_function, const char *const *names, int n,
                 uint8_t masks[N_TUNABLE])
{
    memset(masks, (1 << n) - 1, N_TUNABLE);
    if (text == NULL || *text == '\0')
        return NCCL_SUCCESS;
    struct text rest = text_of(text), entry;
    if (!per_function) {
        uint8_t mask;
        read_list(rest, names, n, &mask);
        memset(masks, mask, N_TUNABLE);
        return NCCL_SUCCESS;
    }
    bool first = true;
    while (text_split(&rest, ';', &entry)) {
        struct text whole = entry, function = {NULL, NULL};
        uint8_t mask;
        if (text_length(entry) == 0)
            continue;
        if (memchr(entry.at, ':', text_length(entry)) != NULL)
            text_split(&entry, ':', &function);
        else if (!first)
            return bad("All entries except the first must have a prefix:", whole, text);
        first = false;
        if (!read_list(entry, names, n, &mask))
            return bad("Unrecognized element token", whole, text);
        if (function.at == NULL) {
            memset(masks, mask, N_TUNABLE);
            continue;
        }
        int c =
            find_name_any_case(function.at, text_length(function), collective_csv_names, N_TUNABLE);
        if (c < 0)
            return bad("Unrecognized prefix token", function, text);
        masks[c] = mask;
    }
    return NCCL_SUCCESS;
}
