#include "schedule.h"

#include "names.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Where the parser stands. */
struct parser {
    struct schedule *schedule;
    struct schedule_mistake *mistake;
    uint32_t line;
    bool has_format;
    bool has_nodes;
    bool has_ranks;
    bool has_calls;
    enum schedule_status status; /* anything but SCHEDULE_OK ends it */
};

__attribute__((format(printf, 2, 3))) static void refuse(struct parser *parser, const char *format,
                                                         ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(parser->mistake->message, sizeof parser->mistake->message, format, arguments);
    va_end(arguments);
    parser->mistake->line = parser->line;
    parser->status = SCHEDULE_REFUSED;
}

/* Precision for "%.*s": messages quote at most this much. */
static int shown(struct text text)
{
    return text.left > 40 ? 40 : (int)text.left;
}

/* Where a value of the `nodes= ranks= calls=` line goes; NULL for an unknown key, or one that was
 * there already.  `least` is what the value must reach. */
static uint64_t *slot_of(struct parser *parser, struct text key, uint64_t *least)
{
    bool *given = text_is(key, "nodes")   ? &parser->has_nodes
                  : text_is(key, "ranks") ? &parser->has_ranks
                  : text_is(key, "calls") ? &parser->has_calls
                                          : NULL;
    if (given == NULL || *given) {
        return NULL;
    }
    *given = true;
    *least = given == &parser->has_calls ? 0 : 1;
    return given == &parser->has_nodes   ? &parser->schedule->n_nodes
           : given == &parser->has_ranks ? &parser->schedule->n_ranks
                                         : &parser->schedule->n_calls;
}

static void read_head(struct parser *parser, struct text rest)
{
    struct text word;
    struct text key;
    struct text value;
    while (parser->status == SCHEDULE_OK && text_next_word(&rest, &word)) {
        uint64_t least = 0;
        bool is_pair = text_split(word, '=', &key, &value);
        uint64_t *slot = is_pair ? slot_of(parser, key, &least) : NULL;
        if (slot == NULL) {
            /* An unknown key may change what a step is: never ignored. */
            refuse(parser, "'%.*s' is not understood, or is there twice", shown(word), word.at);
        } else if (text_unsigned(value, slot) != TEXT_NUMBER_OK || *slot < least) {
            refuse(parser, "'%.*s': expected a number from %llu", shown(word), word.at,
                   (unsigned long long)least);
        }
    }
}

static void read_directive(struct parser *parser, struct text rest)
{
    struct text words = rest;
    struct text word;
    bool is_format = text_next_word(&words, &word) && text_is(word, "format");
    if (is_format && !parser->has_format && text_is(text_trim(words), "1")) {
        parser->has_format = true;
    } else if (is_format || !parser->has_format) {
        refuse(parser, "expected '#@ format 1' first, and once");
    } else if (parser->schedule->n_steps > 0) {
        refuse(parser, "a '#@' line behind the first step");
    } else {
        read_head(parser, rest);
    }
}

static bool read_part(struct text text, bool (*number_of)(struct text, int *), int8_t *slot)
{
    int number = LEAVE_TO_HOST; /* "-" is how the command line writes it */
    if (!text_is(text, "-") && !number_of(text, &number)) {
        return false;
    }
    *slot = (int8_t)number;
    return true;
}

/* Reads `algorithm/protocol[/channels]`, `forced` before it, `silent`, which answers nothing, or
 * `rules`. */
static bool read_setting(struct parser *parser, struct text text, struct schedule_step *read)
{
    struct candidate *step = &read->answer;
    struct text parts[3];
    struct text part;
    size_t n = 0;
    bool more = true;
    int64_t channels = -1;
    *step = (struct candidate){-1, -1, -1, LEAVE_TO_HOST, LEAVE_TO_HOST, parser->line};
    struct text words = text, word;
    read->forced = text_next_word(&words, &word) && text_is(word, "forced");
    if (read->forced) {
        text = text_trim(words);
    }
    read->rules = !read->forced && text_is(text, "rules");
    if (read->rules || (!read->forced && text_is(text, "silent"))) {
        return true;
    }
    while (text_next_field(&text, '/', &more, &part)) {
        if (n < 3) {
            parts[n] = part;
        }
        n++;
    }
    if (n < 2 || n > 3 || !read_part(parts[0], algorithm_number, &step->algorithm) ||
        !read_part(parts[1], protocol_number, &step->protocol) ||
        (n == 3 && text_signed(parts[2], &channels) != TEXT_NUMBER_OK) || channels < -1 ||
        channels > INT32_MAX) {
        return false;
    }
    step->channels = (int32_t)channels;
    bool names_cell = step->algorithm != LEAVE_TO_HOST;
    /* Others were seen to find no kernel. */
    bool has_kernel = step->algorithm == ALGORITHM_TREE && step->protocol == PROTOCOL_SIMPLE;
    return names_cell == (step->protocol != LEAVE_TO_HOST) && (names_cell || channels >= 1) &&
           (has_kernel || !read->forced);
}

static void read_step(struct parser *parser, struct text line)
{
    struct schedule *schedule = parser->schedule;
    struct schedule_step step;
    if (!parser->has_format || !parser->has_nodes || !parser->has_ranks) {
        refuse(parser, "a step before '#@ format 1' and '#@ nodes=N ranks=N calls=N'");
    } else if (!read_setting(parser, line, &step)) {
        refuse(parser,
               "'%.*s' is no setting: expected algorithm/protocol[/channels], silent, rules or "
               "forced tree/simple[/channels]",
               shown(line), line.at);
    } else if (schedule->n_steps >= SCHEDULE_MAX_STEPS) {
        refuse(parser, "more than %d steps", SCHEDULE_MAX_STEPS);
    } else {
        if (schedule->n_steps == schedule->steps_room) {
            uint32_t room = schedule->steps_room == 0 ? 16 : 2 * schedule->steps_room;
            struct schedule_step *bigger = realloc(schedule->steps, room * sizeof *bigger);
            if (bigger == NULL) {
                parser->status = SCHEDULE_NO_MEMORY;
                return;
            }
            schedule->steps = bigger;
            schedule->steps_room = room;
        }
        schedule->steps[schedule->n_steps++] = step;
        schedule->has_rules = schedule->has_rules || step.rules;
    }
}

static void read_line(struct parser *parser, struct text line)
{
    struct text comment;
    line = text_trim(line);
    if (text_skip(&line, "#@")) {
        read_directive(parser, line);
        return;
    }
    (void)text_split(line, '#', &line, &comment);
    line = text_trim(line);
    if (line.left > 0) {
        read_step(parser, line);
    }
}

enum schedule_status schedule_parse(struct text content, struct schedule *schedule,
                                    struct schedule_mistake *mistake)
{
    struct parser parser = {.schedule = schedule, .mistake = mistake, .status = SCHEDULE_OK};
    struct text line;
    *schedule = (struct schedule){.steps = NULL};
    (void)text_skip(&content, "\xef\xbb\xbf");
    parser.line = text_first_binary_line(content);
    if (parser.line != 0) {
        refuse(&parser, "this is not a text file");
    }
    while (parser.status == SCHEDULE_OK && text_next_line(&content, &line)) {
        parser.line++;
        read_line(&parser, line);
    }
    if (parser.status == SCHEDULE_OK && schedule->n_steps == 0) {
        parser.line = 0;
        refuse(&parser, "there is no step in it");
    }
    return parser.status;
}

void schedule_free(struct schedule *schedule)
{
    free(schedule->steps);
    *schedule = (struct schedule){.steps = NULL};
}

bool schedule_advance(const struct schedule *schedule, struct schedule_place *place,
                      uint64_t n_bytes)
{
    bool begins = !place->begun;
    if (place->begun && place->step < schedule->n_steps &&
        (n_bytes < place->last_bytes ||
         (schedule->n_calls > 0 && place->n_calls >= schedule->n_calls))) {
        place->step++;
        begins = true;
    }
    place->begun = true;
    place->n_calls = begins ? 1 : place->n_calls + 1;
    place->last_bytes = n_bytes;
    return begins;
}

const struct schedule_step *schedule_step_at(const struct schedule *schedule, uint32_t step)
{
    return step < schedule->n_steps ? &schedule->steps[step] : NULL;
}

const struct candidate *schedule_answer(const struct schedule_step *step)
{
    if (step == NULL || step->rules) {
        return NULL;
    }
    const struct candidate *answer = &step->answer;
    return answer->algorithm == LEAVE_TO_HOST && answer->channels < 1 ? NULL : answer;
}
