/*
 * Any bytes as a schedule, and, behind the first NUL, any calls: a byte is a size.  Beyond not
 * crashing, every call must lie in the step that its neighbours allow, and what was read must read
 * the same when it is written out again.
 */
#include "schedule.h"
#include "trace.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check_walk(const struct schedule *schedule, const uint8_t *sizes, size_t n)
{
    struct schedule_place place = {.step = 0};
    uint32_t step = 0;
    uint64_t n_in_step = 0;
    for (size_t i = 0; i < n; i++) {
        bool begins = schedule_advance(schedule, &place, sizes[i]);
        bool over = i > 0 && step == schedule->n_steps;
        bool falls = i > 0 && sizes[i] < sizes[i - 1];
        bool full = schedule->n_calls > 0 && n_in_step == schedule->n_calls;
        require(begins == (i == 0 || (!over && (falls || full))));
        require(place.step == (i == 0 ? 0 : step + (begins ? 1 : 0)));
        require(place.step <= schedule->n_steps);
        step = place.step;
        n_in_step = begins ? 1 : n_in_step + 1;
        const struct schedule_step *at = schedule_step_at(schedule, step);
        require((at == NULL) == (step == schedule->n_steps));
        require(at == NULL || at == &schedule->steps[step]);
    }
}

static bool same(const struct candidate *a, const struct candidate *b)
{
    int32_t mine = a->channels < 1 ? -1 : a->channels;
    int32_t theirs = b->channels < 1 ? -1 : b->channels;
    return a->algorithm == b->algorithm && a->protocol == b->protocol && mine == theirs;
}

static void check_round_trip(const struct schedule *schedule)
{
    struct schedule again;
    struct schedule_mistake mistake;
    struct lines lines = {.at = NULL};
    lines_add(&lines, "#@ format 1\n#@ nodes=%llu ranks=%llu calls=%llu\n",
              (unsigned long long)schedule->n_nodes, (unsigned long long)schedule->n_ranks,
              (unsigned long long)schedule->n_calls);
    for (uint32_t i = 0; i < schedule->n_steps; i++) {
        const struct schedule_step *step = &schedule->steps[i];
        if (schedule_answer(step) == NULL) {
            lines_add(&lines, "%s", step->rules ? "rules" : "silent");
        } else {
            trace_add_setting(&lines, &step->answer);
        }
        lines_add(&lines, "\n");
    }
    require(schedule_parse((struct text){lines.at, lines.used}, &again, &mistake) == SCHEDULE_OK);
    require(again.n_nodes == schedule->n_nodes && again.n_ranks == schedule->n_ranks &&
            again.n_calls == schedule->n_calls && again.n_steps == schedule->n_steps &&
            again.has_rules == schedule->has_rules);
    for (uint32_t i = 0; i < schedule->n_steps; i++) {
        require(same(&schedule->steps[i].answer, &again.steps[i].answer) &&
                schedule->steps[i].rules == again.steps[i].rules);
    }
    schedule_free(&again);
    lines_free(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct schedule schedule;
    struct schedule_mistake mistake = {.line = 0};
    const uint8_t *end = size == 0 ? NULL : memchr(data, 0, size);
    size_t length = end == NULL ? size : (size_t)(end - data);
    struct text content = {(const char *)data, length};
    enum schedule_status status = schedule_parse(content, &schedule, &mistake);
    if (status == SCHEDULE_OK) {
        check_round_trip(&schedule);
        check_walk(&schedule, data + length, size - length);
    } else {
        require(strlen(mistake.message) > 0 || status == SCHEDULE_NO_MEMORY);
    }
    schedule_free(&schedule);
    return 0;
}
