/* Reading a .node file: lines, words and the checks on the whole.  Records are in node_records.c.
 */
#include "node.h"
#include "node_lines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const place_names[N_PLACES] = {"node", "one-iod", "one-oam", "one-per-oam", "other"};

static const char *const first_line = "rccltune-node 1";
enum { LONGEST_LINE = 2048, MAX_ELEMENTS = 1 << 20, LARGEST_FILE = 64 << 20 };

bool say(struct reader *reader, const char *mistake)
{
    reader->mistake = mistake;
    return false;
}

bool take_word(struct reader *reader, struct text *word)
{
    if (!text_split(&reader->words, ' ', word) || text_length(*word) == 0)
        return say(reader, "a word is missing");
    return true;
}

bool take_string(struct reader *reader, char *out, size_t size)
{
    struct text word;
    if (!take_word(reader, &word))
        return false;
    return text_copy(word, out, size) || say(reader, "a text is too long or badly escaped");
}

bool take_int(struct reader *reader, int64_t min, int64_t max, int64_t *value)
{
    struct text word;
    if (!take_word(reader, &word))
        return false;
    return text_to_int(word, min, max, value) || say(reader, "a whole number is out of range");
}

bool take_small(struct reader *reader, int min, int max, int *value)
{
    int64_t wide;
    if (!take_int(reader, min, max, &wide))
        return false;
    *value = (int)wide;
    return true;
}

bool take_flag(struct reader *reader, bool *value)
{
    int number;
    if (!take_small(reader, 0, 1, &number))
        return false;
    *value = number == 1;
    return true;
}

bool take_double(struct reader *reader, double min, double max, double *value)
{
    struct text word;
    if (!take_word(reader, &word))
        return false;
    return text_to_double(word, min, max, value) || say(reader, "a number is out of range");
}

bool take_name(struct reader *reader, const char *const *names, int n, bool any, int *value)
{
    struct text word;
    if (!take_word(reader, &word))
        return false;
    if (any && text_equals(word, "-")) {
        *value = -1;
        return true;
    }
    *value = find_name(word.at, text_length(word), names, n);
    return *value >= 0 || say(reader, "a name is unknown");
}

/* tree/ll, the name of a path, or "-". */
bool take_setting(struct reader *reader, bool any, int *path, int *algorithm, int *protocol)
{
    struct text word, half;
    *algorithm = *protocol = -1;
    if (!take_word(reader, &word))
        return false;
    if (any && text_equals(word, "-")) {
        *path = -1;
        return true;
    }
    if (memchr(word.at, '/', text_length(word)) == NULL) {
        for (int i = 1; i < reader->node->n_paths; i++) {
            if (text_equals(word, reader->node->path_names[i])) {
                *path = i;
                return true;
            }
        }
        return say(reader, "a setting is neither algorithm/protocol nor a known path");
    }
    *path = PATH_TUNED;
    text_split(&word, '/', &half);
    *algorithm = find_name(half.at, text_length(half), algorithm_names, N_ALGORITHMS);
    if (text_split(&word, '/', &half))
        *protocol = find_name(half.at, text_length(half), protocol_names, N_PROTOCOLS);
    return (*algorithm >= 0 && *protocol >= 0 && word.at == NULL) ||
           say(reader, "a setting is unknown");
}

static bool take_optional_int(struct reader *reader, int min, int max, int *value)
{
    struct text word;
    int64_t number;
    if (!take_word(reader, &word))
        return false;
    if (text_equals(word, "-")) {
        *value = -1;
        return true;
    }
    if (!text_to_int(word, min, max, &number))
        return say(reader, "a whole number is out of range");
    *value = (int)number;
    return true;
}

static bool take_variant(struct reader *reader, int *index)
{
    struct text word;
    if (!take_word(reader, &word))
        return false;
    *index = -1;
    if (text_equals(word, "-"))
        return true;
    for (int i = 0; i < reader->node->n_variants; i++) {
        if (text_equals(word, reader->node->variants[i].name)) {
            *index = i;
            return true;
        }
    }
    return say(reader, "a variant is not defined above");
}

bool take_selector(struct reader *reader, struct selector *where, bool with_range)
{
    static const char *const halves[] = {"out", "in"};
    where->min_bytes = 0;
    where->max_bytes = INT64_MAX;
    if (!take_name(reader, collective_names, N_COLLECTIVES, true, &where->collective) ||
        !take_setting(reader, true, &where->path, &where->algorithm, &where->protocol) ||
        !take_optional_int(reader, 0, MAX_CHANNELS, &where->cap) ||
        !take_optional_int(reader, 1, MAX_RANKS, &where->ranks) ||
        !take_name(reader, place_names, N_PLACES, true, &where->placement) ||
        !take_variant(reader, &where->variant) ||
        !take_name(reader, halves, 2, true, &where->in_place) ||
        !take_name(reader, dtype_names, N_DTYPES, true, &where->dtype))
        return false;
    if (!with_range)
        return true;
    return take_int(reader, 0, INT64_MAX, &where->min_bytes) &&
           take_int(reader, where->min_bytes, INT64_MAX, &where->max_bytes);
}

void *grow(void *array, int *n, size_t element)
{
    /* Powers of two, so that reading a file costs no quadratic copying. */
    if ((*n & (*n - 1)) == 0) {
        size_t room = *n == 0 ? 1 : 2 * (size_t)*n;
        void *larger = *n < MAX_ELEMENTS ? realloc(array, room * element) : NULL;
        if (larger == NULL)
            sim_fail("no memory for the node file");
        array = larger;
    }
    memset((char *)array + (size_t)*n * element, 0, element);
    ++*n;
    return array;
}

static void start(struct node *node)
{
    static const char *const paths[N_LIBRARY_PATHS] = {
        "tuned",         "p2p",        "msccl",          "mscclpp",
        "direct",        "dda",        "rcclx-dda-flat", "rcclx-dda-tree",
        "low-precision", "p2p-gather",
    };
    memset(node, 0, sizeof *node);
    for (int i = 0; i < N_LIBRARY_PATHS; i++)
        strcpy(node->path_names[i], paths[i]);
    node->n_paths = N_LIBRARY_PATHS;
    node->library_bypasses = true;
    node->tuning_model = MODEL_AUTO;
    node->burst_factor = node->outlier_factor = 1;
    node->benchmark = -1;
}

/* What must have been said before the node can be used; NULL where all is there. */
static const char *missing(const struct node *node)
{
    if (node->name[0] == '\0' || node->arch[0] == '\0' || node->host[0] == '\0')
        return "name, arch or host is missing";
    if (node->ranks == 0 || node->rccl[0] == '\0' || node->benchmark < 0)
        return "ranks, rccl or benchmark is missing";
    if (node->ranks % node->nodes != 0)
        return "the nodes do not share the ranks evenly";
    if (node->channels == 0 || node->ring.channels == 0 || node->tree.channels == 0)
        return "channels or a graph is missing";
    for (int i = 0; i < node->n_curves; i++) {
        if (node->curves[i].points.n == 0)
            return "a curve has no points";
    }
    for (int i = 0; i < node->n_effects; i++) {
        const struct effect *effect = &node->effects[i];
        if (effect->shape == SHAPE_POINTS && effect->points.n == 0)
            return "an effect has no points";
        if (effect->shape == SHAPE_CHANNELS && effect->n_rows == 0)
            return "a channel scaling has no rows";
        for (int j = 0; j < effect->n_rows; j++) {
            if (effect->rows[j].points.n == 0)
                return "a row of a channel scaling has no points";
        }
    }
    return NULL;
}

bool node_parse(const char *data, size_t length, struct node *node, char *message, size_t size)
{
    struct reader reader = {.node = node};
    struct text rest = {data, data + length}, line, keyword = {NULL, NULL};
    int number = 0;
    bool ended = false;
    start(node);
    while (reader.mistake == NULL && text_split(&rest, '\n', &line)) {
        number++;
        if (text_length(line) > LONGEST_LINE)
            say(&reader, "the line is too long");
        else if (memchr(line.at, '\0', text_length(line)) != NULL)
            say(&reader, "this is no text");
        else if (number == 1 && !text_equals(line, first_line))
            say(&reader, "this is no .node file of format 1");
        else if (ended && text_length(line) != 0)
            say(&reader, "there is text behind the end");
        if (reader.mistake != NULL || number == 1 || text_length(line) == 0 || line.at[0] == '#')
            continue;
        reader.words = line;
        text_split(&reader.words, ' ', &keyword);
        if (text_equals(keyword, "end"))
            ended = true;
        else if (read_record(&reader, keyword) && reader.words.at != NULL)
            say(&reader, "there are words too many");
    }
    if (reader.mistake == NULL && !ended)
        say(&reader, "the last line is not 'end': the file was cut off");
    if (reader.mistake == NULL)
        reader.mistake = missing(node);
    if (reader.mistake == NULL)
        return true;
    snprintf(message, size, "line %d: %s", number, reader.mistake);
    node_free(node);
    return false;
}

static void free_points(struct points *points)
{
    free(points->log_bytes);
    free(points->log_value);
}

void node_free(struct node *node)
{
    for (int i = 0; i < node->n_curves; i++)
        free_points(&node->curves[i].points);
    for (int i = 0; i < node->n_effects; i++) {
        free_points(&node->effects[i].points);
        for (int j = 0; j < node->effects[i].n_rows; j++)
            free_points(&node->effects[i].rows[j].points);
        free(node->effects[i].rows);
    }
    for (int i = 0; i < node->n_variants; i++)
        free(node->variants[i].conditions);
    for (int i = 0; i < N_SPREADS; i++)
        free_points(&node->spreads[i]);
    free(node->drift);
    free(node->curves);
    free(node->effects);
    free(node->faults);
    free(node->variants);
    free(node->bypasses);
    memset(node, 0, sizeof *node);
}

void node_load(const char *path, struct node *node)
{
    if (path == NULL || *path == '\0')
        sim_fail("RCCLTUNE_SIM_NODE names no node file: this program is no benchmark, rccltune "
                 "starts it under --simulate");
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        sim_fail("cannot open the node file %s: %s", path, strerror(errno));
    char *data = NULL;
    size_t length = 0, room = 1 << 16, got;
    do {
        char *larger = room <= LARGEST_FILE ? realloc(data, room) : NULL;
        if (larger == NULL)
            sim_fail("the node file %s is too large", path);
        data = larger;
        got = fread(data + length, 1, room - length, file);
        length += got;
        room *= 2;
    } while (got > 0);
    if (ferror(file))
        sim_fail("cannot read the node file %s", path);
    fclose(file);
    char message[160];
    if (!node_parse(data, length, node, message, sizeof message))
        sim_fail("%s, %s", path, message);
    free(data);
}
