/* Schedules: the file, where a step ends, and every ABI version through the real library:
 * test_schedule LIBRARY. */
#include "check.h"
#include "host.h"
#include "names.h"
#include "schedule.h"
#include "tree.h"

#include <fcntl.h>
#include <unistd.h>

#define HEAD "#@ format 1\n#@ nodes=1 ranks=8 calls=0\n"

enum { ALL_REDUCE = 4, ALL_GATHER = 2, N_CELLS = 21 };

static char root[256];
static const char *library;

static void check_refused(const char *content, uint32_t line, const char *message)
{
    struct schedule schedule;
    struct schedule_mistake mistake = {.line = 99};
    CHECK(schedule_parse(text_of(content), &schedule, &mistake) == SCHEDULE_REFUSED);
    if (mistake.line != line || strstr(mistake.message, message) == NULL) {
        check_failures++;
        (void)fprintf(stderr, "'%s': line %u: %s\n", content, (unsigned)mistake.line,
                      mistake.message);
    }
    schedule_free(&schedule);
}

static void check_step(const struct schedule *schedule, uint32_t step, int algorithm, int protocol,
                       int channels)
{
    const struct candidate *answer = schedule_answer(schedule_step_at(schedule, step));
    CHECK(answer != NULL && answer->algorithm == algorithm && answer->protocol == protocol &&
          answer->channels == channels && answer->n_pipe_ops == -1 && answer->reg_buff == -1);
}

static void check_files(void)
{
    struct schedule schedule;
    struct schedule_mistake mistake;
    CHECK(schedule_parse(text_of("\xef\xbb\xbf# SIMULATED\r\n#@ format 1\r\n"
                                 "#@ ranks=64 nodes=2\r\n#@  calls=44 \r\n\n"
                                 "silent\r\n tree/ll128 # first\n#\nring/simple/16\nring/ll/-1\n"
                                 "pat / simple / 0\n-/-/8\n-1/-1/9"),
                         &schedule, &mistake) == SCHEDULE_OK);
    CHECK(schedule.n_nodes == 2 && schedule.n_ranks == 64 && schedule.n_calls == 44);
    CHECK(schedule.n_steps == 7 && !schedule.has_rules);
    CHECK(schedule_answer(schedule_step_at(&schedule, 0)) == NULL);
    CHECK(schedule_answer(schedule_step_at(&schedule, 1))->line == 7);
    check_step(&schedule, 1, ALGORITHM_TREE, PROTOCOL_LL128, -1);
    check_step(&schedule, 2, ALGORITHM_RING, PROTOCOL_SIMPLE, 16);
    check_step(&schedule, 3, ALGORITHM_RING, PROTOCOL_LL, -1);
    check_step(&schedule, 4, 6, PROTOCOL_SIMPLE, 0);
    check_step(&schedule, 5, LEAVE_TO_HOST, LEAVE_TO_HOST, 8);
    check_step(&schedule, 6, LEAVE_TO_HOST, LEAVE_TO_HOST, 9);
    CHECK(schedule_step_at(&schedule, 7) == NULL &&
          schedule_step_at(&schedule, UINT32_MAX) == NULL && schedule_answer(NULL) == NULL);
    schedule_free(&schedule);
    CHECK(schedule_parse(text_of(HEAD "silent"), &schedule, &mistake) == SCHEDULE_OK &&
          schedule.n_calls == 0);
    schedule_free(&schedule);
}

static void check_rules_steps(void)
{
    struct schedule schedule;
    struct schedule_mistake mistake;
    CHECK(schedule_parse(text_of(HEAD "silent\nrules # of the file\nring/ll\n"), &schedule,
                         &mistake) == SCHEDULE_OK);
    CHECK(schedule.n_steps == 3 && schedule.has_rules && !schedule.steps[0].rules &&
          schedule.steps[1].rules && !schedule.steps[2].rules);
    CHECK(schedule_answer(schedule_step_at(&schedule, 1)) == NULL);
    schedule_free(&schedule);
}

static void check_forced_steps(void)
{
    struct schedule schedule;
    struct schedule_mistake mistake;
    CHECK(schedule_parse(text_of(HEAD "tree/simple\nforced  tree/simple/8 # closed\n"), &schedule,
                         &mistake) == SCHEDULE_OK);
    CHECK(!schedule.steps[0].forced && schedule.steps[1].forced &&
          schedule.steps[1].answer.channels == 8);
    schedule_free(&schedule);
}

static void check_mistakes(void)
{
    static const char *const bad_settings[] = {"tree",
                                               "ring/ll/1/2",
                                               "bush/ll",
                                               "ring/LL",
                                               "-1/ll",
                                               "ring/-",
                                               "ring/ll/-2",
                                               "ring/ll/many",
                                               "ring/ll/",
                                               "-/-",
                                               "-/-/0",
                                               "/",
                                               "baseline",
                                               "silent/ll",
                                               "rules/ll",
                                               "Rules",
                                               "rules rules",
                                               "ring/ll,16",
                                               "silent ring",
                                               "-1/-1",
                                               "forced",
                                               "forced silent",
                                               "forced tree/ll",
                                               "forced rules",
                                               "forced ring/simple",
                                               "forced -/-/8",
                                               "forced forced tree/simple",
                                               "forcedtree/simple",
                                               "Silent",
                                               "ring/ll/ 1 6 ",
                                               "ring/2147483648",
                                               "ring/ll/2147483648"};
    char content[256];
    check_refused("", 0, "no step");
    check_refused(HEAD "# nothing\n", 0, "no step");
    check_refused("silent\n", 1, "a step before");
    check_refused("#@ format 1\nsilent\n", 2, "a step before");
    check_refused("#@ format 1\n#@ nodes=1\nsilent\n", 3, "a step before");
    check_refused("#@ format 1\n#@ ranks=1\nsilent\n", 3, "a step before");
    check_refused("#@ nodes=1 ranks=8\nsilent\n", 1, "format 1");
    check_refused("#@\nsilent\n", 1, "format 1");
    check_refused("#@ format 2\n" HEAD "silent\n", 1, "format 1");
    check_refused("#@ format 1\n" HEAD "silent\n", 2, "once");
    check_refused(HEAD "#@ nodes=1\nsilent\n", 3, "'nodes=1' is not understood, or is there twice");
    check_refused("#@ format 1\n#@ nodes=1 ranks=8 first=3\nsilent\n", 2, "'first=3'");
    check_refused("#@ format 1\n#@ nodes ranks=8\nsilent\n", 2, "'nodes'");
    check_refused("#@ format 1\n#@ nodes=0 ranks=8\n", 2, "'nodes=0': expected a number from 1");
    check_refused("#@ format 1\n#@ nodes=1 ranks=-1\n", 2, "'ranks=-1'");
    check_refused("#@ format 1\n#@ nodes=1 ranks=18446744073709551616\n", 2, "number from 1");
    check_refused("#@ format 1\n#@ nodes=1 ranks=8 calls=\n", 2, "number from 0");
    check_refused(HEAD "silent\n#@ calls=3\n", 4, "behind the first step");
    check_refused(HEAD "silent\n\x01", 4, "not a text file");
    for (size_t i = 0; i < sizeof bad_settings / sizeof bad_settings[0]; i++) {
        (void)snprintf(content, sizeof content, HEAD "silent\n%s\n", bad_settings[i]);
        check_refused(content, 4, "is no setting");
    }
}

static void check_limit(void)
{
    const size_t head = strlen(HEAD);
    size_t size = head + (size_t)(SCHEDULE_MAX_STEPS + 1) * 7;
    char *content = malloc(size + 1);
    struct schedule schedule;
    struct schedule_mistake mistake;
    if (content == NULL) {
        CHECK(false);
        return;
    }
    memcpy(content, HEAD, head);
    for (size_t at = head; at < size; at += 7) {
        memcpy(content + at, "silent\n", 7);
    }
    CHECK(schedule_parse((struct text){content, size - 7}, &schedule, &mistake) == SCHEDULE_OK);
    CHECK(schedule.n_steps == SCHEDULE_MAX_STEPS);
    schedule_free(&schedule);
    CHECK(schedule_parse((struct text){content, size}, &schedule, &mistake) == SCHEDULE_REFUSED);
    CHECK(mistake.line == SCHEDULE_MAX_STEPS + 3 && strstr(mistake.message, "more than 65536"));
    schedule_free(&schedule);
    free(content);
}

/* The steps that calls of these sizes belong to, each with a mark where the step begins. */
static void check_places(uint32_t n_steps, uint64_t n_calls, const char *sizes, const char *wanted)
{
    struct schedule schedule = {.n_calls = n_calls, .n_steps = n_steps};
    struct schedule_place place = {.step = 0};
    char got[128] = "";
    for (const char *at = sizes; *at != '\0'; at++) {
        bool begins = schedule_advance(&schedule, &place, (uint64_t)(*at - '0'));
        size_t used = strlen(got);
        (void)snprintf(got + used, sizeof got - used, "%s%u", begins ? "|" : "",
                       (unsigned)place.step);
    }
    CHECK_STRING(got, wanted);
}

static void check_where_steps_end(void)
{
    check_places(3, 0, "", "");
    check_places(3, 0, "0", "|0");
    check_places(3, 0, "1112223331112", "|000000000|1111");
    check_places(2, 0, "9911223312233", "|00|111111|22222"); /* the old benchmarks' warm-up */
    check_places(2, 0, "21012", "|0|1|222");                 /* silent from here on */
    check_places(9, 0, "5555", "|0000");                     /* one size: never falls */
    check_places(9, 2, "55555", "|00|11|2");
    check_places(2, 2, "5555555", "|00|11|222");
    check_places(9, 4, "11221122", "|0000|1111"); /* both ends at once are one end */
    check_places(9, 3, "112211", "|000|1|22");    /* whichever comes first */
    check_places(1, 1, "999", "|0|11");
}

static void write_schedule(const char *content)
{
    char path[600];
    CHECK(tree_put(root, "schedule", content));
    (void)snprintf(path, sizeof path, "%s/schedule", root);
    (void)setenv("RCCLTUNE_SCHEDULE", path, 1);
}

/* Asks with all cells of 7 x 3 selectable but one; the cell that became 0, or -1. */
static int ask_beside(struct host *host, int collective, size_t n_bytes, int closed,
                      int *n_channels)
{
    float table[N_CELLS];
    struct host_call call = {collective, n_bytes, 1, 0, table, 7, 3, 0};
    int cell = -1;
    for (int i = 0; i < N_CELLS; i++) {
        table[i] = i == closed ? -1.0F : 5.0F;
    }
    CHECK(host_ask(host, &call) == ABI_SUCCESS);
    for (int i = 0; i < N_CELLS; i++) {
        if (table[i] >= 0.0F && table[i] < 5.0F) {
            CHECK(cell == -1);
            cell = i;
        } else {
            CHECK(i == closed || table[i] > 4.0F);
        }
    }
    *n_channels = call.n_channels;
    return cell;
}

static int ask(struct host *host, size_t n_bytes)
{
    int n_channels = 0;
    return ask_beside(host, ALL_REDUCE, n_bytes, -1, &n_channels);
}

static void check_version(int version)
{
    struct host host;
    int n_channels = 0;
    CHECK(host_load(&host, library, version));
    write_schedule(HEAD "silent\ntree/ll\nring/simple/16\n-/-/8\ntree/simple\nring/ll\n");
    CHECK(host_init(&host, 8, 1) == ABI_SUCCESS && host.context != NULL);
    CHECK(ask(&host, 8) == -1 && ask(&host, 16) == -1);
    CHECK(ask(&host, 8) == 0 && ask(&host, 8) == 0 && ask(&host, 16) == 0);
    CHECK(ask_beside(&host, ALL_REDUCE, 8, -1, &n_channels) == 5 && n_channels == 16);
    for (int collective = 5; collective < 20; collective++) { /* not asked of a tuner, no call */
        CHECK(ask_beside(&host, collective, 1, -1, &n_channels) == -1 && n_channels == 0);
    }
    CHECK(ask_beside(&host, ALL_GATHER, 8, -1, &n_channels) == 5 && n_channels == 16);
    CHECK(ask_beside(&host, ALL_GATHER, 4, -1, &n_channels) == -1 && n_channels == 8);
    CHECK(ask(&host, 3) == (version == 2 ? -1 : 2)); /* nothing unsafe where nobody checks */
    if (version > 2) {                               /* a cell that is closed is left alone */
        CHECK(ask_beside(&host, ALL_REDUCE, 2, 3, &n_channels) == -1 && n_channels == 0);
    }
    CHECK(ask(&host, 2) == 3);
    CHECK(ask(&host, 1) == -1 && ask(&host, 2) == -1 && ask(&host, 1) == -1); /* overrun */
    CHECK(host_finalize(&host) == ABI_SUCCESS);
}

static void check_other_scales_are_left_alone(void)
{
    static const size_t scales[][2] = {{16, 1}, {8, 2}, {1, 1}};
    struct host host;
    CHECK(host_load(&host, library, 5));
    write_schedule(HEAD "ring/ll\n");
    for (size_t i = 0; i < 3; i++) {
        CHECK(host_init(&host, scales[i][0], scales[i][1]) == ABI_SUCCESS && host.context == NULL);
        CHECK(ask(&host, 8) == -1 && host_finalize(&host) == ABI_SUCCESS);
    }
}

static void check_every_communicator_has_its_place(void)
{
    struct host hosts[3];
    write_schedule(HEAD "tree/ll\nring/ll\n");
    for (size_t i = 0; i < 3; i++) {
        CHECK(host_load(&hosts[i], library, 4 + (int)i));
        CHECK(host_init(&hosts[i], 8, 1) == ABI_SUCCESS);
    }
    CHECK(ask(&hosts[0], 9) == 0 && ask(&hosts[1], 5) == 0 && ask(&hosts[0], 5) == 3);
    CHECK(ask(&hosts[1], 6) == 0 && ask(&hosts[2], 1) == 0 && ask(&hosts[1], 5) == 3);
    CHECK(ask(&hosts[0], 4) == -1 && ask(&hosts[2], 1) == 0);
    for (size_t i = 0; i < 3; i++) {
        CHECK(host_finalize(&hosts[i]) == ABI_SUCCESS);
    }
}

static int init_quietly(void)
{
    struct host host;
    int saved = dup(STDERR_FILENO);
    int null = open("/dev/null", O_WRONLY);
    CHECK(host_load(&host, library, 5) && dup2(null, STDERR_FILENO) == STDERR_FILENO);
    int result = host_init(&host, 8, 1);
    CHECK(dup2(saved, STDERR_FILENO) == STDERR_FILENO && close(saved) == 0 && close(null) == 0);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
    return result;
}

static void check_files_that_cannot_be_used(void)
{
    static char path[8192];
    (void)setenv("RCCLTUNE_SCHEDULE", "/proc/nonexistent/schedule", 1);
    CHECK(init_quietly() == ABI_INVALID_USAGE);
    memset(path, 'x', sizeof path - 1);
    (void)setenv("RCCLTUNE_SCHEDULE", path, 1);
    CHECK(init_quietly() == ABI_INVALID_USAGE);
    (void)setenv("RCCLTUNE_SCHEDULE", root, 1);
    CHECK(init_quietly() == ABI_INVALID_USAGE);
    write_schedule(HEAD "bush/ll\n");
    CHECK(init_quietly() == ABI_INVALID_USAGE);
    write_schedule(
        "#@ format 1\n#@ nodes=1 ranks=64\nbush/ll\n"); /* of another scale, and broken */
    CHECK(init_quietly() == ABI_INVALID_USAGE);
}

static void set_rules(const char *content)
{
    char path[600];
    CHECK(tree_put(root, "rules.csv", content));
    (void)snprintf(path, sizeof path, "%s/rules.csv", root);
    (void)setenv("NCCL_TUNER_CONFIG_FILE", path, 1);
}

/* What a job with the file would get, in `rules` steps alone: the first selectable match, by scale,
 * numPipeOps and fallbacks. */
static void check_rules_answer_in_their_steps(int version)
{
    struct host host;
    int n_channels = 0;
    set_rules("allreduce,10,19,tree,ll,-1,1,8,-1,-1\n"
              "allreduce,10,29,ring,simple,12,1,8,-1,-1\n"
              "allreduce,40,49,tree,ll,-1,1,8,7,-1\n"
              "allreduce,60,69,ring,ll,-1,1,16,-1,-1\n");
    write_schedule(HEAD "silent\nrules\nring/ll\nrules\n");
    CHECK(host_load(&host, library, version));
    CHECK(host_init(&host, 8, 1) == ABI_SUCCESS && host.context != NULL);
    CHECK(ask(&host, 10) == -1 && ask(&host, 20) == -1);
    CHECK(ask(&host, 9) == -1 && ask(&host, 10) == 0 && ask(&host, 19) == 0);
    CHECK(ask_beside(&host, ALL_REDUCE, 20, -1, &n_channels) == 5 && n_channels == 12);
    CHECK(ask(&host, 30) == -1 && ask(&host, 40) == -1 && ask(&host, 60) == -1);
    CHECK(ask(&host, 10) == 3 && ask(&host, 20) == 3);
    if (version > 2) { /* behind the one that cannot be selected */
        CHECK(ask_beside(&host, ALL_REDUCE, 10, 0, &n_channels) == 5 && n_channels == 12);
    } else {
        CHECK(ask(&host, 10) == 0);
    }
    CHECK(ask(&host, 5) == -1 && ask(&host, 10) == -1); /* overrun */
    CHECK(host_finalize(&host) == ABI_SUCCESS);
}

/* Into a cell that the host closed, for allreduce alone and never for a version 2 host. */
static void check_forced_steps_answer(int version)
{
    struct host host;
    int n_channels = 0, tree_simple = 2;
    write_schedule(HEAD "tree/simple\nforced tree/simple/4\nring/ll\n");
    CHECK(host_load(&host, library, version));
    CHECK(host_init(&host, 8, 1) == ABI_SUCCESS && host.context != NULL);
    CHECK(ask_beside(&host, ALL_REDUCE, 20, tree_simple, &n_channels) == -1);
    CHECK(ask_beside(&host, ALL_REDUCE, 10, tree_simple, &n_channels) ==
          (version > 2 ? tree_simple : -1));
    CHECK(n_channels == (version > 2 ? 4 : 0));
    n_channels = 0;
    CHECK(ask_beside(&host, ALL_GATHER, 11, tree_simple, &n_channels) == -1 && n_channels == 0);
    CHECK(ask_beside(&host, ALL_REDUCE, 5, tree_simple, &n_channels) != tree_simple);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
}

static void check_rules_steps_need_a_file(void)
{
    struct host host;
    write_schedule(HEAD "silent\nrules\n");
    (void)unsetenv("NCCL_TUNER_CONFIG_FILE");
    CHECK(init_quietly() == ABI_INVALID_USAGE);
    (void)setenv("NCCL_TUNER_CONFIG_FILE", "/proc/nonexistent/rules.csv", 1);
    CHECK(init_quietly() == ABI_INVALID_USAGE);
    set_rules("allreduce,20,10,tree,ll,-1,1,8,-1,-1\n");
    CHECK(init_quietly() == ABI_INVALID_USAGE);
    set_rules("#@ requires compute=CPX memory=NPS4\nallreduce,0,9,tree,ll,-1,1,8,-1,-1\n");
    (void)setenv("RCCLTUNE_MODE", "spx-nps1", 1);
    CHECK(init_quietly() == ABI_INVALID_USAGE);
    (void)setenv("RCCLTUNE_MODE", "cpx-nps4", 1);
    CHECK(host_load(&host, library, 5) && host_init(&host, 8, 1) == ABI_SUCCESS);
    CHECK(ask(&host, 9) == -1 && ask(&host, 8) == 0);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
    (void)unsetenv("RCCLTUNE_MODE");
    set_rules("allreduce,0,9,tree,ll,-1,1,16,-1,-1\n"); /* of another scale: nothing, as in a job */
    CHECK(host_load(&host, library, 5) && host_init(&host, 8, 1) == ABI_SUCCESS);
    CHECK(ask(&host, 9) == -1 && ask(&host, 8) == -1 && ask(&host, 8) == -1);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
    write_schedule(HEAD "silent\n"); /* no rule file is read without such a step */
    (void)setenv("NCCL_TUNER_CONFIG_FILE", "/proc/nonexistent/rules.csv", 1);
    CHECK(host_load(&host, library, 5) && host_init(&host, 8, 1) == ABI_SUCCESS);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
    (void)unsetenv("NCCL_TUNER_CONFIG_FILE");
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    library = argv[1];
    tree_make(root, sizeof root);
    check_files();
    check_rules_steps();
    check_forced_steps();
    check_mistakes();
    check_limit();
    check_where_steps_end();
    for (int version = 2; version <= 6; version++) {
        check_version(version);
        check_rules_answer_in_their_steps(version);
        check_forced_steps_answer(version);
    }
    check_rules_steps_need_a_file();
    check_other_scales_are_left_alone();
    check_every_communicator_has_its_place();
    check_files_that_cannot_be_used();
    tree_remove(root);
    return check_result();
}
