#include "rule_file.h"

#include "names.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the parser stands; `no_memory` ends it early. */
struct parser {
    struct rule_file *file;
    uint32_t line;
    bool no_memory;
    uint64_t n_rows; /* rows so far, taken or not */
    bool is_ours;    /* rccltune wrote it: it must end with `#@ end N` */
    bool is_whole;   /* the last `#@ end` says n_rows */
};

enum { N_REQUIRED_FIELDS = 8, MAX_FIELDS = 12 };

static const char *const column_names[MAX_FIELDS] = {
    "colltype", "minbytes", "maxbytes",   "algorithm", "protocol",      "channels",
    "nNodes",   "nRanks",   "numPipeOps", "regBuff",   "partitionMode", "localGroup",
};

/* Makes room for one more element; `items` is left as it is when memory runs out. */
static bool grow(void **items, size_t used, size_t *room, size_t item_size)
{
    if (used < *room) {
        return true;
    }
    /* Both callers cap `used` (2^20 rules, 200 findings), so the product cannot overflow. */
    size_t wanted = *room == 0 ? 16 : *room * 2;
    void *bigger = realloc(*items, wanted * item_size);
    if (bigger == NULL) {
        return false;
    }
    *items = bigger;
    *room = wanted;
    return true;
}

__attribute__((format(printf, 4, 5))) static void note(struct parser *parser,
                                                       enum finding_severity severity,
                                                       const char *code, const char *format, ...)
{
    struct rule_file *file = parser->file;
    if (severity == FINDING_ERROR) {
        file->n_errors++;
    } else {
        file->n_warnings++;
    }
    if (file->n_findings >= RULE_FILE_MAX_FINDINGS) {
        return;
    }
    void *items = file->findings;
    if (!grow(&items, file->n_findings, &file->findings_room, sizeof(struct finding))) {
        parser->no_memory = true;
        return;
    }
    file->findings = items;
    struct finding *finding = &file->findings[file->n_findings++];
    *finding = (struct finding){.severity = severity, .line = parser->line, .code = code};
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(finding->message, sizeof finding->message, format, arguments);
    va_end(arguments);
}

/* Precision for "%.*s": messages quote at most this much of a field. */
static int shown(struct text text)
{
    return text.left > 40 ? 40 : (int)text.left;
}

static bool read_bytes(struct parser *parser, const char *column, struct text field,
                       uint64_t *value)
{
    enum text_number got = text_unsigned(field, value);
    if (got == TEXT_NUMBER_OK) {
        return true;
    }
    struct text rest = field;
    uint64_t ignored;
    bool negative = text_skip(&rest, "-") && text_unsigned(rest, &ignored) != TEXT_NUMBER_NONE;
    if (got == TEXT_NUMBER_TOO_BIG || negative) {
        note(parser, FINDING_ERROR, "number-range", "%s: '%.*s' does not fit (0 to 2^64-1)", column,
             shown(field), field.at);
    } else {
        note(parser, FINDING_ERROR, "not-a-number",
             "%s: '%.*s' is not a number of bytes (plain digits, no K, M or G)", column,
             shown(field), field.at);
    }
    return false;
}

static bool read_count(struct parser *parser, const char *column, struct text field, int32_t *value)
{
    int64_t number = 0;
    enum text_number got = text_signed(field, &number);
    if (got == TEXT_NUMBER_NONE) {
        note(parser, FINDING_ERROR, "not-a-number", "%s: '%.*s' is not a number", column,
             shown(field), field.at);
        return false;
    }
    if (got == TEXT_NUMBER_TOO_BIG || number < -1 || number > INT32_MAX) {
        note(parser, FINDING_ERROR, "number-range", "%s: '%.*s' does not fit (-1 to 2147483647)",
             column, shown(field), field.at);
        return false;
    }
    *value = (int32_t)number;
    return true;
}

static bool read_setting(struct parser *parser, const struct text *fields, struct rule *rule)
{
    int algorithm = 0;
    int protocol = 0;
    bool known_algorithm = algorithm_number(fields[3], &algorithm);
    bool known_protocol = protocol_number(fields[4], &protocol);
    if (!known_algorithm) {
        note(parser, FINDING_ERROR, "unknown-algorithm", "unknown algorithm '%.*s'",
             shown(fields[3]), fields[3].at);
    }
    if (!known_protocol) {
        note(parser, FINDING_ERROR, "unknown-protocol", "unknown protocol '%.*s'", shown(fields[4]),
             fields[4].at);
    }
    if (!known_algorithm || !known_protocol) {
        return false;
    }
    if ((algorithm == LEAVE_TO_HOST) != (protocol == LEAVE_TO_HOST)) {
        note(parser, FINDING_ERROR, "half-setting",
             "algorithm %s with protocol %s: leave both to the library, or name both",
             algorithm_name(algorithm), protocol_name(protocol));
        return false;
    }
    rule->algorithm = (int8_t)algorithm;
    rule->protocol = (int8_t)protocol;
    return true;
}

/* Columns 11 and 12.  False when the row asks for something that cannot be honoured: it is skipped
 * with a warning, because applying it without its condition would choose where it must not. */
static bool read_extension(struct parser *parser, const struct text *fields, size_t n,
                           struct rule *rule)
{
    struct text mode = n > 10 ? fields[10] : text_of("");
    struct text group = n > 11 ? fields[11] : text_of("");
    bool any_mode = text_is(mode, "") || text_is(mode, "-1");
    if (!any_mode && !mode_parse(mode, true, &rule->only_mode)) {
        note(parser, FINDING_WARNING, "unknown-field",
             "partitionMode (field 11) is '%.*s', which is no mode: write cpx, or -1; row skipped",
             shown(mode), mode.at);
        return false;
    }
    if (!text_is(group, "") && !text_is(group, "-1")) {
        note(parser, FINDING_WARNING, "unknown-field",
             "localGroup (field 12) is '%.*s', and only -1, any group, is accepted: write -1, or "
             "leave the field out; row skipped",
             shown(group), group.at);
        return false;
    }
    return true;
}

static bool looks_like_header(const struct text *fields)
{
    for (size_t i = 0; i < 3; i++) {
        struct text field = fields[i];
        char first = field.left > 0 ? field.at[0] : '0';
        bool letter = (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z');
        if (!letter) {
            return false;
        }
    }
    return true;
}

static void add_rule(struct parser *parser, const struct rule *rule)
{
    struct rule_file *file = parser->file;
    if (file->n_rules >= RULE_FILE_MAX_RULES) {
        if (file->n_rules == RULE_FILE_MAX_RULES && file->n_errors == 0) {
            note(parser, FINDING_ERROR, "too-many-rules", "more than %d rules",
                 RULE_FILE_MAX_RULES);
        }
        return;
    }
    void *items = file->rules;
    if (!grow(&items, file->n_rules, &file->rules_room, sizeof(struct rule))) {
        parser->no_memory = true;
        return;
    }
    file->rules = items;
    file->rules[file->n_rules++] = *rule;
}

/* Reads the numbers of a row.  Every mistake is noted, not the first only: a user mends them in one
 * go. */
static bool read_numbers(struct parser *parser, const struct text *fields, size_t n,
                         struct rule *rule)
{
    int32_t *const counts[] = {
        &rule->channels, &rule->n_nodes, &rule->n_ranks, &rule->n_pipe_ops, &rule->reg_buff,
    };
    bool good = read_bytes(parser, column_names[1], fields[1], &rule->min_bytes);
    good = read_bytes(parser, column_names[2], fields[2], &rule->max_bytes) && good;
    for (size_t i = 5; i < 10 && i < n; i++) {
        if (i >= N_REQUIRED_FIELDS && fields[i].left == 0) {
            continue; /* an optional column left empty means any */
        }
        good = read_count(parser, column_names[i], fields[i], counts[i - 5]) && good;
    }
    if (good && rule->min_bytes > rule->max_bytes) {
        note(parser, FINDING_ERROR, "min-above-max", "minbytes %llu is above maxbytes %llu",
             (unsigned long long)rule->min_bytes, (unsigned long long)rule->max_bytes);
        return false;
    }
    return good;
}

static void parse_fields(struct parser *parser, const struct text *fields, size_t n)
{
    struct rule rule = {.line = parser->line, .n_pipe_ops = -1, .reg_buff = -1};
    int collective = collective_number(fields[0]);
    if (collective < 0 && collective_is_untunable(fields[0])) {
        note(parser, FINDING_WARNING, "untunable-collective",
             "%.*s never asks a tuner; row skipped", shown(fields[0]), fields[0].at);
        return;
    }
    if (collective < 0 && looks_like_header(fields)) {
        note(parser, FINDING_WARNING, "header-row", "a header row; skipped");
        return;
    }
    bool good = collective >= 0;
    if (!good) {
        note(parser, FINDING_ERROR, "unknown-collective", "unknown collective '%.*s'",
             shown(fields[0]), fields[0].at);
    }
    rule.collective = (int8_t)collective;
    good = read_numbers(parser, fields, n, &rule) && good;
    good = read_setting(parser, fields, &rule) && good;
    if (!good) {
        return;
    }
    if (rule.algorithm == ALGORITHM_TREE && !text_is(fields[0], "allreduce")) {
        note(parser, FINDING_WARNING, "tree-not-allreduce",
             "tree exists for allreduce only; row skipped");
        return;
    }
    if (read_extension(parser, fields, n, &rule)) {
        add_rule(parser, &rule);
    }
}

static void parse_row(struct parser *parser, struct text row)
{
    struct text fields[MAX_FIELDS];
    struct text field;
    size_t n = 0;
    size_t last_filled = 0;
    bool more = true;
    while (text_next_field(&row, ',', &more, &field)) {
        if (n < MAX_FIELDS) {
            fields[n] = field;
        }
        n++;
        last_filled = field.left > 0 ? n : last_filled;
    }
    n = last_filled; /* separators at the end of a row add nothing */
    if (n < N_REQUIRED_FIELDS) {
        note(parser, FINDING_ERROR, "too-few-fields", "%zu fields, at least %d are needed", n,
             N_REQUIRED_FIELDS);
    } else if (n > MAX_FIELDS) {
        note(parser, FINDING_WARNING, "unknown-field",
             "%zu fields, at most %d are understood; row skipped", n, MAX_FIELDS);
    } else {
        parse_fields(parser, fields, n);
    }
}

/* Keeps a text value; a second `#@ requires` must not contradict the first. */
static bool keep_text(char *slot, size_t size, struct text value)
{
    bool fresh = slot[0] == '\0';
    return value.left > 0 && (fresh ? text_copy(value, slot, size) : text_is(value, slot));
}

static bool keep_number(uint32_t *slot, struct text value)
{
    uint64_t number = 0;
    struct text rest = value;
    enum text_number got =
        text_skip(&rest, "0x") ? text_hex(value, &number) : text_unsigned(value, &number);
    if (got != TEXT_NUMBER_OK || number == 0 || number > UINT32_MAX ||
        (*slot != 0 && *slot != (uint32_t)number)) {
        return false;
    }
    *slot = (uint32_t)number;
    return true;
}

static bool keep_byte(uint8_t *slot, uint8_t value)
{
    if (value == 0 || (*slot != 0 && *slot != value)) {
        return false;
    }
    *slot = value;
    return true;
}

/* Two spellings of one product are no contradiction. */
static bool keep_product(char slot[PRODUCT_SIZE], struct text value)
{
    char name[PRODUCT_SIZE];
    return product_name(value, name) && keep_text(slot, PRODUCT_SIZE, text_of(name));
}

static bool keep_requirement(struct requirement *wanted, struct text key, struct text value)
{
    if (text_is(key, "arch")) {
        return keep_text(wanted->arch, sizeof wanted->arch, value);
    }
    if (text_is(key, "placement")) {
        return keep_text(wanted->placement, sizeof wanted->placement, value);
    }
    if (text_is(key, "product")) {
        return keep_product(wanted->product, value);
    }
    if (text_is(key, "device")) {
        return keep_number(&wanted->device, value);
    }
    if (text_is(key, "cus")) {
        return keep_number(&wanted->n_cus, value);
    }
    if (text_is(key, "compute")) {
        return keep_byte(&wanted->mode.compute, mode_compute(value));
    }
    return text_is(key, "memory") && keep_byte(&wanted->mode.memory, mode_memory(value));
}

static void parse_requires(struct parser *parser, struct text rest)
{
    struct text word;
    struct text key;
    struct text value;
    parser->file->requirement.line = parser->line;
    while (text_next_word(&rest, &word)) {
        /* An unknown key may be a condition that a newer release knows: never ignored. */
        if (!text_split(word, '=', &key, &value) ||
            !keep_requirement(&parser->file->requirement, key, value)) {
            note(parser, FINDING_ERROR, "bad-requires",
                 "requires: '%.*s' is not understood, or contradicts an earlier line", shown(word),
                 word.at);
        }
    }
}

/* Another family or another form may be a newer release's condition: never ignored. */
static void parse_library(struct parser *parser, struct text rest)
{
    struct library *kept = &parser->file->library;
    struct text line = text_trim(rest);
    struct text family;
    struct text release;
    struct library found;
    if (!text_next_word(&rest, &family) || !text_next_word(&rest, &release) ||
        text_trim(rest).left > 0 || !library_parse(family, release, &found) ||
        (kept->family != LIBRARY_UNKNOWN && !library_equal(kept, &found))) {
        note(parser, FINDING_ERROR, "bad-library",
             "library: '%.*s' is not understood (NCCL 2.28.9), or contradicts an earlier line",
             shown(line), line.at);
        return;
    }
    *kept = found;
}

/* Results would change where two files were joined by hand: never ignored. */
static void parse_bits(struct parser *parser, struct text rest)
{
    struct text line = text_trim(rest);
    struct text name;
    char *kept = parser->file->bits;
    if (!text_next_word(&rest, &name) || text_trim(rest).left > 0 ||
        !keep_text(kept, sizeof parser->file->bits, name)) {
        note(parser, FINDING_ERROR, "bad-bits",
             "bits: '%.*s' is not understood, or contradicts an earlier line", shown(line),
             line.at);
    }
}

static void parse_directive(struct parser *parser, struct text rest)
{
    struct rule_file *file = parser->file;
    struct text word;
    struct environment_need need;
    uint64_t number = 0;
    if (!text_next_word(&rest, &word)) {
        return;
    }
    if (text_is(word, "end")) {
        parser->is_ours = true;
        parser->is_whole =
            text_unsigned(text_trim(rest), &number) == TEXT_NUMBER_OK && number == parser->n_rows;
    } else if (text_is(word, "format")) {
        parser->is_ours = true;
        if (!text_is(text_trim(rest), "1")) {
            note(parser, FINDING_ERROR, "bad-format", "format '%.*s': this build reads format 1",
                 shown(text_trim(rest)), text_trim(rest).at);
        }
    } else if (text_is(word, "requires")) {
        parse_requires(parser, rest);
    } else if (text_is(word, "library")) {
        parse_library(parser, rest);
    } else if (text_is(word, "bits")) {
        parse_bits(parser, rest);
    } else if (text_is(word, "needs") &&
               text_split(text_trim(rest), '=', &need.name, &need.value) &&
               file->n_needs < RULE_FILE_MAX_NEEDS) {
        file->needs[file->n_needs++] = need;
    }
    /* Other directives (`#@ hole`, provenance) are for readers, not for this program. */
}

static void parse_line(struct parser *parser, struct text line)
{
    struct text row = text_trim(line);
    struct text comment;
    if (text_skip(&row, "#@")) {
        parse_directive(parser, row);
        return;
    }
    (void)text_split(row, '#', &row,
                     &comment); /* the vendors' own test files comment after a row */
    row = text_trim(row);
    if (row.left > 0) {
        parser->n_rows++;
        parser->is_whole = false;
        parse_row(parser, row);
    }
}

/* Whether a file of ours ends inside its first word, or before it. */
static bool is_stump(struct text content)
{
    static const char first[] = "#@ format";
    return content.left == 0 ||
           (content.left < sizeof first - 1 && memcmp(content.at, first, content.left) == 0);
}

bool rule_file_parse(struct text content, struct rule_file *file)
{
    struct parser parser = {.file = file};
    struct text line;
    memset(file, 0, sizeof *file);
    (void)text_skip(&content, "\xef\xbb\xbf"); /* a byte-order mark, as some editors leave it */
    if (is_stump(content)) {
        parser.line = 1;
        note(&parser, FINDING_ERROR, "cut",
             content.left != 0 ? "the file ends in its first word" : "the file is empty");
        return !parser.no_memory;
    }
    parser.line = text_first_binary_line(content);
    if (parser.line != 0) {
        note(&parser, FINDING_ERROR, "not-text", "this is not a text file");
        return !parser.no_memory;
    }
    while (!parser.no_memory && text_next_line(&content, &line)) {
        parser.line++;
        parse_line(&parser, line);
    }
    if (parser.is_ours && !parser.is_whole) {
        unsigned long long n = parser.n_rows;
        note(&parser, FINDING_ERROR, "cut",
             "it has %llu row%s, and '#@ end %llu' is not the last line: the file was cut, or "
             "edited by hand (then write that line)",
             n, n == 1 ? "" : "s", n);
    }
    return !parser.no_memory;
}

bool rule_file_is_usable(const struct rule_file *file, bool strict)
{
    return file->n_errors == 0 && !(strict && file->n_warnings > 0);
}

void rule_file_free(struct rule_file *file)
{
    free(file->rules);
    free(file->findings);
    memset(file, 0, sizeof *file);
}
