#include "text.h"

#include <string.h>

struct text text_of(const char *string)
{
    return (struct text){string, string == NULL ? 0 : strlen(string)};
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static char lower(char c)
{
    /* Not tolower(): in a Turkish locale 'I' has another lower case. */
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static void advance(struct text *text, size_t count)
{
    text->at += count;
    text->left -= count;
}

struct text text_trim(struct text text)
{
    while (text.left > 0 && is_blank(text.at[0])) {
        advance(&text, 1);
    }
    while (text.left > 0 && is_blank(text.at[text.left - 1])) {
        text.left--;
    }
    return text;
}

bool text_next_line(struct text *rest, struct text *line)
{
    if (rest->left == 0) {
        return false;
    }
    const char *end = memchr(rest->at, '\n', rest->left);
    line->at = rest->at;
    line->left = end == NULL ? rest->left : (size_t)(end - rest->at);
    advance(rest, end == NULL ? rest->left : line->left + 1);
    return true;
}

bool text_next_field(struct text *rest, char separator, bool *more, struct text *field)
{
    if (!*more) {
        return false;
    }
    const char *end = rest->left == 0 ? NULL : memchr(rest->at, separator, rest->left);
    field->at = rest->at;
    field->left = end == NULL ? rest->left : (size_t)(end - rest->at);
    *more = end != NULL;
    advance(rest, field->left + (end != NULL ? 1 : 0));
    *field = text_trim(*field);
    return true;
}

bool text_next_word(struct text *rest, struct text *word)
{
    *rest = text_trim(*rest);
    word->at = rest->at;
    word->left = 0;
    while (word->left < rest->left && !is_blank(rest->at[word->left])) {
        word->left++;
    }
    advance(rest, word->left);
    return word->left > 0;
}

bool text_split(struct text text, char separator, struct text *before, struct text *after)
{
    const char *at = text.left == 0 ? NULL : memchr(text.at, separator, text.left);
    if (at == NULL) {
        return false;
    }
    size_t length = (size_t)(at - text.at);
    *before = (struct text){text.at, length};
    *after = (struct text){at + 1, text.left - length - 1};
    return true;
}

bool text_is(struct text text, const char *word)
{
    size_t length = strlen(word);
    return text.left == length && (length == 0 || memcmp(text.at, word, length) == 0);
}

bool text_is_in_any_case(struct text text, const char *word)
{
    if (text.left != strlen(word)) {
        return false;
    }
    for (size_t i = 0; i < text.left; i++) {
        if (lower(text.at[i]) != lower(word[i])) {
            return false;
        }
    }
    return true;
}

bool text_skip(struct text *text, const char *prefix)
{
    size_t length = strlen(prefix);
    if (text->left < length || (length > 0 && memcmp(text->at, prefix, length) != 0)) {
        return false;
    }
    if (length > 0) {
        advance(text, length);
    }
    return true;
}

static enum text_number digits(struct text text, unsigned base, uint64_t *value)
{
    uint64_t sum = 0;
    bool fits = true;
    if (text.left == 0) {
        return TEXT_NUMBER_NONE;
    }
    for (size_t i = 0; i < text.left; i++) {
        char c = lower(text.at[i]);
        unsigned digit = base;
        if (c >= '0' && c <= '9') {
            digit = (unsigned)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            digit = (unsigned)(c - 'a') + 10;
        }
        if (digit >= base) {
            return TEXT_NUMBER_NONE;
        }
        fits = fits && sum <= (UINT64_MAX - digit) / base;
        sum = fits ? sum * base + digit : sum;
    }
    *value = sum;
    return fits ? TEXT_NUMBER_OK : TEXT_NUMBER_TOO_BIG;
}

enum text_number text_unsigned(struct text text, uint64_t *value)
{
    return digits(text, 10, value);
}

enum text_number text_signed(struct text text, int64_t *value)
{
    bool negative = text_skip(&text, "-");
    uint64_t magnitude = 0;
    enum text_number got = digits(text, 10, &magnitude);
    if (got != TEXT_NUMBER_OK) {
        return got;
    }
    if (magnitude > (uint64_t)INT64_MAX) {
        return TEXT_NUMBER_TOO_BIG; /* -2^63 included: nobody means it */
    }
    *value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return TEXT_NUMBER_OK;
}

enum text_number text_hex(struct text text, uint64_t *value)
{
    (void)(text_skip(&text, "0x") || text_skip(&text, "0X"));
    return digits(text, 16, value);
}

bool text_copy(struct text text, char *buffer, size_t size)
{
    if (size == 0) {
        return false;
    }
    if (text.left >= size) {
        buffer[0] = '\0';
        return false;
    }
    if (text.left > 0) {
        memcpy(buffer, text.at, text.left);
    }
    buffer[text.left] = '\0';
    return true;
}

uint32_t text_first_binary_line(struct text text)
{
    uint32_t line = 1;
    for (size_t i = 0; i < text.left; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c == '\n') {
            line++;
        } else if ((c < ' ' && c != '\t' && c != '\r') || c == 0x7f) {
            return line;
        }
    }
    return 0;
}
