/*
 * The heads of MSCCL's schedules in the directory of MSCCL_ALGO_DIR: for which calls each was made.
 * What a schedule does is not read; its time is the node file's.  Facts: RCCL
 * src/misc/msccl/msccl_lifecycle.cc (mscclInternalSchedulerInit, _SelectAlgo), msccl_parser.cc.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debug.h"
#include "rccl.h"

enum { LONGEST_HEAD = 4096 };

/* NAME="VALUE" of the head; NULL where it is not there. */
static const char *attribute(const char *head, const char *name, char *value, size_t size)
{
    size_t length = strlen(name);
    for (const char *at = strstr(head, name); at != NULL; at = strstr(at + 1, name)) {
        if (!isspace((unsigned char)at[-1]) || strncmp(at + length, "=\"", 2) != 0)
            continue;
        const char *start = at + length + 2, *end = strchr(start, '"');
        if (end == NULL || (size_t)(end - start) >= size)
            return NULL;
        memcpy(value, start, (size_t)(end - start));
        value[end - start] = '\0';
        return value;
    }
    return NULL;
}

static bool take(const char *head, const char *name, int64_t *number)
{
    char text[64], *end;
    if (attribute(head, name, text, sizeof text) == NULL)
        return false;
    *number = strtoll(text, &end, 0);
    return end != text;
}

static bool read_head(const char *path, struct schedule *schedule)
{
    char text[LONGEST_HEAD] = "", name[64];
    int64_t ranks, chunks, in_place = 0, out_of_place = 1;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    char *head = strstr(text, "<algo"), *end = head == NULL ? NULL : strchr(head, '>');
    if (end == NULL)
        return false;
    *end = '\0';
    if (!take(head, "ngpus", &ranks) || !take(head, "nchunksperloop", &chunks) ||
        !take(head, "minBytes", &schedule->min_bytes) ||
        !take(head, "maxBytes", &schedule->max_bytes) ||
        attribute(head, "coll", name, sizeof name) == NULL || ranks < 1 || ranks > MAX_RANKS ||
        chunks < 1 || chunks > 1 << 20)
        return false;
    take(head, "inplace", &in_place);
    take(head, "outofplace", &out_of_place);
    schedule->collective = find_name(name, strlen(name), collective_csv_names, N_COLLECTIVES);
    schedule->n_ranks = (int)ranks;
    schedule->chunks = (int)chunks;
    schedule->in_place = in_place != 0;
    schedule->out_of_place = out_of_place != 0;
    return true;
}

int schedules_read(const char *directory, struct schedules *schedules)
{
    struct dirent **entries;
    int n = scandir(directory, &entries, NULL, alphasort), result = NCCL_SUCCESS;
    if (n < 0) {
        debug_warn("MSCCL Internal Scheduler:  Unable to find algorithm files in %s. Please ensure "
                   "that RCCL has been installed properly",
                   directory);
        return NCCL_INVALID_USAGE;
    }
    debug_info(SUBSYS_INIT, "Using MSCCL files from %s", directory);
    for (int i = 0; i < n; i++) {
        char path[4096];
        int length = snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
        bool is_file = entries[i]->d_type == DT_REG || entries[i]->d_type == DT_LNK;
        free(entries[i]);
        if (!is_file || result != NCCL_SUCCESS)
            continue;
        if (length >= (int)sizeof path || schedules->n == MAX_SCHEDULES ||
            !read_head(path, &schedules->list[schedules->n])) {
            debug_warn("MSCCL: %s is no schedule", path);
            result = NCCL_INTERNAL_ERROR;
        }
        schedules->n++;
    }
    free(entries);
    return result;
}

bool schedules_take(const struct schedules *schedules, const struct comm *comm,
                    const struct call *call)
{
    int64_t bytes = (int64_t)call->n_bytes, count = bytes / dtype_bytes[call->dtype];
    for (int i = 0; i < schedules->n; i++) {
        const struct schedule *s = &schedules->list[i];
        if (s->collective == call->collective && s->n_ranks == comm->n_ranks && count > 0 &&
            count % s->chunks == 0 && bytes >= s->min_bytes &&
            (s->max_bytes == 0 || bytes <= s->max_bytes) &&
            (call->in_place ? s->in_place : s->out_of_place))
            return true;
    }
    return false;
}
