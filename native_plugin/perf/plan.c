#include "plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rccltune_answer.h"

enum { MAX_WORDS = 11 };

/* One line in words; `words[n]` is NULL. */
struct words {
    const char *at[MAX_WORDS + 1];
    int n;
};

static void split(char *text, struct words *words)
{
    char *rest = NULL;
    words->n = 0;
    for (char *word = strtok_r(text, " \t\r\n", &rest); word != NULL && words->n < MAX_WORDS;
         word = strtok_r(NULL, " \t\r\n", &rest))
        words->at[words->n++] = word;
    words->at[words->n] = NULL;
}

static bool read_number(const char *word, double least, double most, double *value)
{
    char *end;
    errno = 0;
    *value = strtod(word, &end);
    return errno == 0 && end != word && *end == '\0' && *value >= least && *value <= most;
}

/* tree/ll128 or tree/ll128/16 */
static bool read_setting(const char *word, struct step *step)
{
    const char *slash = strchr(word, '/');
    if (slash == NULL)
        return false;
    const char *rest = slash + 1, *end = strchr(rest, '/');
    size_t length = end != NULL ? (size_t)(end - rest) : strlen(rest);
    double channels = 0;
    step->answer.algorithm =
        position_of(word, (size_t)(slash - word), algorithm_names, N_ALGORITHMS);
    step->answer.protocol = position_of(rest, length, protocol_names, N_PROTOCOLS);
    bool has_channels = end == NULL || read_number(end + 1, 1, 1024, &channels);
    step->answer.kind = RCCLTUNE_ANSWER_SETTING;
    step->answer.channels = (int)channels;
    return step->answer.algorithm >= 0 && step->answer.protocol >= 0 && has_channels;
}

static bool read_answer(const struct words *words, struct step *step)
{
    step->kind = STEP_ANSWER;
    if (words->n != 2)
        return false;
    if (strcmp(words->at[1], "nothing") == 0)
        step->answer.kind = RCCLTUNE_ANSWER_NOTHING;
    else if (strcmp(words->at[1], "rules") == 0)
        step->answer.kind = RCCLTUNE_ANSWER_RULES;
    else
        return read_setting(words->at[1], step);
    return true;
}

static int find(const char *word, const char *const *names, int n)
{
    return position_of(word, strlen(word), names, n);
}

/* COLLECTIVE TYPE OP PLACEMENT BYTES; what is wrong, NULL where nothing is. */
static const char *read_call(const struct words *words, struct step *step)
{
    int collective = find(words->at[1], collective_names, N_COLLECTIVES);
    int type = find(words->at[2], type_names, N_TYPES);
    int op = find(words->at[3], op_names, N_OPS);
    double bytes;
    if (collective < 0)
        return "no collective of this program";
    if (type < 0)
        return "no type of this program";
    if (op < 0)
        return "no operation of this program";
    step->in_place = strcmp(words->at[4], "in") == 0;
    if (!step->in_place && strcmp(words->at[4], "out") != 0)
        return "the placement is out or in";
    if (step->in_place && (collective == ALLTOALL || collective == SENDRECV))
        return "alltoall and sendrecv are measured out of place";
    if (!read_number(words->at[5], 1, 1e15, &bytes))
        return "no number of bytes";
    step->collective = (enum collective)collective;
    step->type = (enum type)type;
    step->op = (enum op)op;
    step->n_bytes = (size_t)bytes;
    return NULL;
}

static const char *read_single(const struct words *words, struct step *step)
{
    double root = ANY_ROOT;
    if (words->n != 7)
        return "six words follow: collective, type, operation, placement, bytes, root";
    if (strcmp(words->at[6], "-") != 0 && !read_number(words->at[6], 0, 1e6, &root))
        return "the root is a rank or -";
    step->root = (int)root;
    return read_call(words, step);
}

/* loop, graph; one-root, a loop whose calls all have the same root; registered, a graph too. */
static bool read_clock(const char *word, struct step *step)
{
    bool one_root = strcmp(word, "one-root") == 0;
    step->root = one_root ? 0 : ANY_ROOT;
    step->registered = strcmp(word, "registered") == 0;
    step->graph = step->registered || strcmp(word, "graph") == 0;
    return step->graph || one_root || strcmp(word, "loop") == 0;
}

static const char *read_measure(const struct words *words, struct step *step)
{
    double calls;
    if (words->n != 10)
        return "nine words follow: collective, type, operation, placement, bytes, clock, least "
               "us, least calls, most us";
    if (!read_clock(words->at[6], step))
        return "the clock is loop, graph, one-root or registered";
    if (!read_number(words->at[7], 0, 1e12, &step->least_us) ||
        !read_number(words->at[8], 1, 1e9, &calls) ||
        !read_number(words->at[9], 0, 1e12, &step->most_us))
        return "least us, least calls and most us are numbers";
    step->least_calls = (long)calls;
    return read_call(words, step);
}

static const char *read_order(const struct words *words, struct step *step)
{
    if (words->n != 7 || !read_clock(words->at[6], step) || step->registered || step->root == 0)
        return "six words follow: collective, type, operation, placement, bytes, loop or graph";
    return read_call(words, step);
}

static const char *read_plan(const struct words *words, struct step *step)
{
    double bytes;
    step->kind = STEP_PLAN;
    if (words->n != 3 || strcmp(words->at[1], "2") != 0 ||
        !read_number(words->at[2], 1, 1e15, &bytes))
        return "'plan 2' and the bytes of the largest step come first";
    step->n_bytes = (size_t)bytes;
    return NULL;
}

/* The purpose is for whoever reads the plan. */
static const char *read_communicator(const struct words *words, struct step *step)
{
    step->kind = STEP_COMMUNICATOR;
    return words->n <= 2 ? NULL : "at most what it is for follows";
}

static const char *read_step(const struct words *words, struct step *step)
{
    const char *word = words->at[0];
    if (strcmp(word, "plan") == 0)
        return read_plan(words, step);
    if (strcmp(word, "communicator") == 0)
        return read_communicator(words, step);
    if (strcmp(word, "answer") == 0)
        return read_answer(words, step) ? NULL : "nothing, rules, or a setting as ring/ll128/16";
    if (strcmp(word, "end") == 0) {
        step->kind = STEP_END;
        return words->n == 1 ? NULL : "nothing follows";
    }
    if (strcmp(word, "measure") == 0) {
        step->kind = STEP_MEASURE;
        return read_measure(words, step);
    }
    if (strcmp(word, "order") == 0) {
        step->kind = STEP_ORDER;
        return read_order(words, step);
    }
    step->kind = strcmp(word, "check") == 0 ? STEP_CHECK : STEP_CALL;
    if (step->kind == STEP_CALL && strcmp(word, "call") != 0)
        return "no step of this program";
    return read_single(words, step);
}

/* What no line says by itself: the largest step is known before the first communicator, calls need
 * one, a captured graph makes every later call of a loop dearer (NCCL adds an event to it), and
 * buffers change once, for registered ones. */
static const char *check_order(const struct step *step)
{
    static size_t most_bytes;
    static bool has_communicator, has_graph, has_registered;
    if ((step->kind == STEP_PLAN) == (most_bytes > 0))
        return "'plan 2' comes first, and once";
    switch (step->kind) {
    case STEP_PLAN:
        most_bytes = step->n_bytes;
        return NULL;
    case STEP_COMMUNICATOR:
        has_communicator = true;
        has_graph = has_registered = false;
        return NULL;
    case STEP_ANSWER:
    case STEP_END:
        return NULL;
    default:
        break;
    }
    if (!has_communicator)
        return "there is no communicator yet";
    if (step->n_bytes > most_bytes)
        return "it is larger than the largest step that the first line says";
    if (step->kind == STEP_MEASURE && !step->graph && has_graph)
        return "all loops of a communicator come before its first graph";
    if (has_registered && !step->registered)
        return "what has registered buffers comes last in a communicator";
    has_registered = step->registered;
    has_graph |= step->kind == STEP_MEASURE && step->graph;
    return NULL;
}

bool step_read(const char *text, int line, struct step *step)
{
    char copy[MAX_STEP];
    struct words words;
    context.line = line;
    if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
        fail(EXIT_USAGE, "the line is longer than %d bytes", MAX_STEP - 1);
    split(copy, &words);
    if (words.n == 0 || *words.at[0] == '#')
        return false;
    *step = (struct step){.line = line};
    const char *mistake = read_step(&words, step);
    mistake = mistake != NULL ? mistake : check_order(step);
    if (mistake != NULL)
        fail(EXIT_USAGE, "%s: %s", words.at[0], mistake);
    return true;
}
