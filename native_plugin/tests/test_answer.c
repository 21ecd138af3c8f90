/* What a rank program says and reads (rccltune_answer.h), for every ABI version: test_answer
 * LIBRARY. */
#include "check.h"
#include "host.h"
#include "rccltune_answer.h"
#include "tree.h"

#include <dlfcn.h>

enum { ALL_REDUCE = 4, SEND = 6, N_CELLS = 21, TREE_LL = 0, RING_LL = 3, RING_LL128, RING_SIMPLE };

static char root[256];
static const char *library;
static int (*answer)(const struct rccltune_answer *);
static void (*asked)(struct rccltune_asked *, int);
static void (*questions)(uint64_t *, uint64_t *);
static double (*cost_ns)(void);

static int say(int kind, int algorithm, int protocol, int channels)
{
    const struct rccltune_answer said = {kind, algorithm, protocol, channels};
    return answer(&said);
}

static struct rccltune_asked heard(void)
{
    struct rccltune_asked now;
    asked(&now, 1);
    return now;
}

/* A host that would take tree/ll and closes ring/ll128. */
struct told {
    int cell; /* that became 0, -1 where none did */
    int channels;
};

static void set_costs(float table[N_CELLS])
{
    for (int i = 0; i < N_CELLS; i++) {
        table[i] = i == RING_LL128 ? -1024.0F : 5.0F + (float)i;
    }
}

static struct told ask(struct host *host, int collective, size_t n_bytes)
{
    float table[N_CELLS];
    struct told told = {-1, 0};
    set_costs(table);
    struct host_call call = {collective, n_bytes, 1, 0, table, 7, 3, 0};
    CHECK(host_ask(host, &call) == ABI_SUCCESS);
    for (int i = 0; i < N_CELLS; i++) {
        told.cell = table[i] == 0.0F ? i : told.cell; // NOLINT(clang-diagnostic-float-equal)
    }
    told.channels = call.n_channels;
    return told;
}

static void set_rules(void)
{
    char path[600];
    CHECK(tree_put(root, "rules.csv", "allreduce,0,4096,ring,simple,4,-1,-1,-1,-1\n"));
    (void)snprintf(path, sizeof path, "%s/rules.csv", root);
    (void)setenv("NCCL_TUNER_CONFIG_FILE", path, 1);
}

/* Before anybody says anything the plugin is what it is in a job, and so is a context that was made
 * then. */
static void check_a_job(void)
{
    struct host job, measured;
    CHECK(host_load(&job, library, 5) && host_init(&job, 8, 1) == ABI_SUCCESS);
    CHECK(ask(&job, ALL_REDUCE, 64).cell == RING_SIMPLE);
    CHECK(heard().n_calls == 0);
    CHECK(say(RCCLTUNE_ANSWER_NOTHING, 0, 0, 0) == 0);
    CHECK(ask(&job, ALL_REDUCE, 64).cell == RING_SIMPLE && heard().n_calls == 0);
    CHECK(host_load(&measured, library, 5) && host_init(&measured, 8, 1) == ABI_SUCCESS);
    CHECK(ask(&measured, ALL_REDUCE, 64).cell == -1 && heard().n_calls == 1);
    CHECK(host_finalize(&job) == ABI_SUCCESS && host_finalize(&measured) == ABI_SUCCESS);
}

static void check_version(int version)
{
    struct host host;
    struct rccltune_asked now;
    bool shows_table = version > 2;
    CHECK(host_load(&host, library, version) && host_init(&host, 8, 1) == ABI_SUCCESS);
    CHECK(say(RCCLTUNE_ANSWER_NOTHING, 0, 0, 0) == 0);
    CHECK(ask(&host, ALL_REDUCE, 64).cell == -1);
    now = heard();
    CHECK(now.n_calls == 1 && now.n_answered == 0 && now.n_bytes == 64);
    CHECK(now.collective == ALL_REDUCE && now.answer_algorithm == -1 && now.answer_channels == 0);
    CHECK(now.host_algorithm == (shows_table ? 0 : -1) && now.host_protocol == now.host_algorithm);
    CHECK(now.selectable == (shows_table ? 0x1fffefU : 0) && now.differing == 0);
    CHECK(now.n_algorithms == (shows_table ? 7 : 0) && now.n_protocols == (shows_table ? 3 : 0));
    CHECK(now.registered == 0);

    CHECK(say(RCCLTUNE_ANSWER_SETTING, 1, 2, 16) == 0);
    struct told told = ask(&host, ALL_REDUCE, 1 << 20);
    CHECK(told.cell == RING_SIMPLE && told.channels == 16);
    told = ask(&host, ALL_REDUCE, 1 << 20);
    now = heard();
    CHECK(now.n_calls == 2 && now.n_answered == 2 && now.differing == 0);
    CHECK(now.answer_algorithm == 1 && now.answer_protocol == 2 && now.answer_channels == 16);
    (void)ask(&host, ALL_REDUCE, 8);
    (void)ask(&host, ALL_REDUCE, 16);
    CHECK(heard().differing == 1); /* the first since the last look differs from nothing */

    /* What the host closes is never opened, and a collective above 4 is not even noted. */
    CHECK(say(RCCLTUNE_ANSWER_SETTING, 1, 1, 0) == 0);
    CHECK(ask(&host, ALL_REDUCE, 64).cell == -1);
    now = heard();
    CHECK(now.n_calls == 1 && now.n_answered == 0);
    CHECK(ask(&host, SEND, 64).cell == -1 && heard().n_calls == 0);

    /* The file's rules, first match, where they reach. */
    CHECK(say(RCCLTUNE_ANSWER_RULES, 0, 0, 0) == 0);
    told = ask(&host, ALL_REDUCE, 4096);
    CHECK(told.cell == RING_SIMPLE && told.channels == 4);
    CHECK(ask(&host, ALL_REDUCE, 4097).cell == -1);
    now = heard();
    CHECK(now.n_calls == 2 && now.n_answered == 1);
    /* A question costs something, and far less than a call; nobody is told of those that measure.
     */
    CHECK(cost_ns() > 0 && cost_ns() < 1e5);
    CHECK(heard().n_calls == 0);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
    CHECK(cost_ns() < 0); /* its rules are gone */
}

/* Whatever a library asks beside it, the question that decides is what is counted, kept and
 * compared. */
static void check_release(enum host_release release)
{
    struct host host;
    struct rccltune_asked now;
    float table[N_CELLS];
    uint64_t all, counted, before, counted_before;
    struct host_call call = {ALL_REDUCE, 1000, 1, 0, table, 7, 3, 0};
    CHECK(host_load(&host, library, 6) && host_init(&host, 8, 1) == ABI_SUCCESS);
    CHECK(say(RCCLTUNE_ANSWER_SETTING, 1, 2, 0) == 0);
    questions(&before, &counted_before);
    for (int i = 0; i < 10; i++) {
        set_costs(table);
        CHECK(host_issue(&host, release, &call) == ABI_SUCCESS);
        CHECK(table[RING_SIMPLE] <= 0.0F);
    }
    now = heard();
    CHECK(now.n_calls == 10 && now.n_answered == 10 && now.differing == 0);
    CHECK(now.n_bytes == 1000 && now.selectable == 0x1fffefU && now.host_algorithm == 0);
    CHECK(now.answer_algorithm == 1 && now.answer_protocol == 2);
    questions(&all, &counted);
    CHECK(counted - counted_before == 10 && all - before == (release == HOST_2_30 ? 10 : 30));

    /* Bytes of one rank are not those of all; a tree serves no all_gather. */
    call = (struct host_call){ABI_ALL_GATHER, 8 * 4096, 1, 0, table, 7, 3, 0};
    set_costs(table);
    table[0] = table[1] = table[2] = -1.0F;
    CHECK(host_issue(&host, release, &call) == ABI_SUCCESS);
    now = heard();
    CHECK(now.n_calls == 1 && now.n_bytes == 8 * 4096 && now.collective == ABI_ALL_GATHER);

    /* Real differences are found: sizes that a symmetric kernel would call the same, and whether
     * buffers are registered. */
    call = (struct host_call){ALL_REDUCE, 600, 1, 0, table, 7, 3, 0};
    for (int i = 0; i < 3; i++) {
        set_costs(table);
        call.n_bytes = i == 0 ? 600 : 700;
        call.reg_buff = i == 2 ? 1 : 0;
        CHECK(host_issue(&host, release, &call) == ABI_SUCCESS);
    }
    now = heard();
    CHECK(now.n_calls == 3 && now.differing == 2 && now.registered == 1);

    /* A call that a symmetric kernel serves is none of ours, and the next one is again. */
    set_costs(table);
    CHECK(host_issue_in_windows(&host, release, &call) == ABI_SUCCESS);
    CHECK(heard().n_calls == 0);
    set_costs(table);
    CHECK(host_issue(&host, release, &call) == ABI_SUCCESS && heard().n_calls == 1);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
}

/* Where no cell can be chosen nothing is told of, by which release ever. */
static void check_closed(void)
{
    struct host host;
    float table[N_CELLS];
    struct host_call call = {ALL_REDUCE, 64, 1, 0, table, 7, 3, 0};
    CHECK(host_load(&host, library, 5) && host_init(&host, 8, 1) == ABI_SUCCESS);
    CHECK(say(RCCLTUNE_ANSWER_SETTING, 1, 2, 0) == 0);
    for (int i = 0; i < N_CELLS; i++) {
        table[i] = i == RING_LL128 ? -1024.0F : -1.0F;
    }
    for (int i = 0; i < 3; i++) {
        CHECK(host_ask(&host, &call) == ABI_SUCCESS && table[RING_SIMPLE] < 0.0F);
    }
    CHECK(heard().n_calls == 0);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
}

static void check_refused(void)
{
    struct host host;
    CHECK(say(RCCLTUNE_ANSWER_SETTING, 1, 0, 0) == 0);
    CHECK(say(9, 0, 0, 0) == -1 && say(-1, 0, 0, 0) == -1);
    CHECK(say(RCCLTUNE_ANSWER_SETTING, 7, 0, 0) == -1);
    CHECK(say(RCCLTUNE_ANSWER_SETTING, -1, 0, 0) == -1);
    CHECK(say(RCCLTUNE_ANSWER_SETTING, 0, 3, 0) == -1);
    CHECK(say(RCCLTUNE_ANSWER_SETTING, 0, 0, -1) == -1);
    CHECK(host_load(&host, library, 5) && host_init(&host, 8, 1) == ABI_SUCCESS);
    CHECK(ask(&host, ALL_REDUCE, 64).cell == RING_LL); /* the last that was understood */
    CHECK(heard().n_answered == 1);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
}

/* Without a rule file "the rules" are none; one rank alone has nothing to choose. */
static void check_without_rules(void)
{
    struct host host;
    (void)unsetenv("NCCL_TUNER_CONFIG_FILE");
    CHECK(say(RCCLTUNE_ANSWER_RULES, 0, 0, 0) == 0);
    CHECK(host_load(&host, library, 5) && host_init(&host, 8, 1) == ABI_SUCCESS);
    CHECK(ask(&host, ALL_REDUCE, 64).cell == -1 && heard().n_calls == 1);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
    CHECK(host_load(&host, library, 5) && host_init(&host, 1, 1) == ABI_SUCCESS);
    CHECK(host.context == NULL && ask(&host, ALL_REDUCE, 64).cell == -1 && heard().n_calls == 0);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    library = argv[1];
    void *loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    /* Functions behind data pointers, as POSIX has it. */
    *(void **)(&answer) = loaded == NULL ? NULL : dlsym(loaded, "rccltune_answer_v1");
    *(void **)(&asked) = loaded == NULL ? NULL : dlsym(loaded, "rccltune_asked_v1");
    *(void **)(&questions) = loaded == NULL ? NULL : dlsym(loaded, "rccltune_questions_v1");
    *(void **)(&cost_ns) = loaded == NULL ? NULL : dlsym(loaded, "rccltune_cost_v1");
    if (answer == NULL || asked == NULL || questions == NULL || cost_ns == NULL) {
        (void)fprintf(stderr, "the plugin lacks functions of rccltune_answer.h\n");
        return EXIT_FAILURE;
    }
    tree_make(root, sizeof root);
    set_rules();
    check_a_job();
    for (int version = 2; version <= 7; version++) {
        check_version(version);
    }
    for (int release = 0; release < N_HOST_RELEASES; release++) {
        check_release((enum host_release)release);
    }
    check_closed();
    check_refused();
    check_without_rules();
    tree_remove(root);
    return check_result();
}
