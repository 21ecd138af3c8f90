/* Steps that the process tells: the file, every ABI version, several communicators, the trace and
 * threads: test_told LIBRARY. */
#include "check.h"
#include "host.h"
#include "rccltune_step.h"
#include "schedule.h"
#include "tree.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#define HEAD "#@ format 1\n#@ nodes=1 ranks=8 advance=told\n"

enum { ALL_REDUCE = 4, N_CELLS = 21, TREE_LL = 0, RING_LL = 3, RING_SIMPLE = 5, NOTHING = -1 };

static char root[256];
static const char *library;
static int (*step)(uint32_t);

static void check_refused(const char *content, const char *message)
{
    struct schedule schedule;
    struct schedule_mistake mistake = {.line = 99};
    CHECK(schedule_parse(text_of(content), &schedule, &mistake) == SCHEDULE_REFUSED);
    CHECK(strstr(mistake.message, message) != NULL);
    schedule_free(&schedule);
}

static void check_files(void)
{
    struct schedule schedule;
    struct schedule_mistake mistake;
    CHECK(schedule_parse(text_of(HEAD "silent"), &schedule, &mistake) == SCHEDULE_OK);
    CHECK(schedule.told && schedule.n_calls == 0 && schedule.n_steps == 1);
    schedule_free(&schedule);
    CHECK(schedule_parse(text_of("#@ format 1\n#@ nodes=1 ranks=8 advance=size calls=3\nsilent"),
                         &schedule, &mistake) == SCHEDULE_OK);
    CHECK(!schedule.told && schedule.n_calls == 3);
    schedule_free(&schedule);
    CHECK(schedule_parse(text_of("#@ format 1\n#@ nodes=1 ranks=8\nsilent"), &schedule, &mistake) ==
          SCHEDULE_OK);
    CHECK(!schedule.told);
    schedule_free(&schedule);
    check_refused("#@ format 1\n#@ nodes=1 ranks=8 advance=never\nsilent", "'advance=never'");
    check_refused(HEAD "#@ advance=told\nsilent", "there twice");
    check_refused(HEAD "#@ advance=size\nsilent", "there twice");
    check_refused(HEAD "#@ calls=3\nsilent", "advance=told");
    check_refused("#@ format 1\n#@ nodes=1 ranks=8 calls=3 advance=told\nsilent", "advance=told");
}

static void set_files(const char *content, const char *trace)
{
    char path[600];
    CHECK(tree_put(root, "schedule", content));
    (void)snprintf(path, sizeof path, "%s/schedule", root);
    (void)setenv("RCCLTUNE_SCHEDULE", path, 1);
    (void)snprintf(path, sizeof path, "%s/%s", root, trace == NULL ? "" : trace);
    if (trace == NULL) {
        (void)unsetenv("RCCLTUNE_TRACE");
    } else {
        (void)setenv("RCCLTUNE_TRACE", path, 1);
    }
}

/* Asks with all cells selectable; the cell that became 0, or NOTHING. */
static int ask(struct host *host, size_t n_bytes)
{
    float table[N_CELLS];
    struct host_call call = {ALL_REDUCE, n_bytes, 1, 0, table, 7, 3, 0};
    int cell = NOTHING;
    for (int i = 0; i < N_CELLS; i++) {
        table[i] = 5.0F;
    }
    CHECK(host_ask(host, &call) == ABI_SUCCESS);
    for (int i = 0; i < N_CELLS; i++) {
        cell = table[i] < 5.0F ? i : cell;
    }
    return cell;
}

/* Sizes that rise and fall as they like: only what was told counts. */
static void ask_all(struct host *host, int wanted)
{
    static const size_t sizes[] = {8, 16, 4, 4, 64, 1, 8};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        CHECK(ask(host, sizes[i]) == wanted);
    }
}

static void check_version(int version)
{
    struct host host;
    CHECK(step(0) == 0);
    set_files(HEAD "silent\nring/ll\nring/simple\ntree/ll\n", NULL);
    CHECK(host_load(&host, library, version) && host_init(&host, 8, 1) == ABI_SUCCESS);
    ask_all(&host, NOTHING);
    CHECK(step(1) == 1);
    ask_all(&host, RING_LL);
    CHECK(step(1) == 1); /* once more changes nothing */
    ask_all(&host, RING_LL);
    CHECK(step(0) == RCCLTUNE_STEP_BACK && step(5) == RCCLTUNE_STEP_BEYOND);
    ask_all(&host, RING_LL);
    CHECK(step(3) == 1); /* one may be left out */
    ask_all(&host, TREE_LL);
    CHECK(step(4) == 1); /* the end */
    ask_all(&host, NOTHING);
    CHECK(host_finalize(&host) == ABI_SUCCESS && step(0) == 0);
}

static void check_several_communicators(void)
{
    struct host hosts[3];
    struct host other;
    set_files(HEAD "silent\nring/ll\nring/simple\n", NULL);
    for (size_t i = 0; i < 2; i++) {
        CHECK(host_load(&hosts[i], library, 5) && host_init(&hosts[i], 8, 1) == ABI_SUCCESS);
    }
    CHECK(host_load(&other, library, 5) && host_init(&other, 4, 1) == ABI_SUCCESS);
    CHECK(step(1) == 2); /* the one of four ranks is none of them */
    CHECK(ask(&hosts[0], 8) == RING_LL && ask(&hosts[1], 8) == RING_LL);
    CHECK(ask(&other, 8) == NOTHING);
    CHECK(host_load(&hosts[2], library, 5) && host_init(&hosts[2], 8, 1) == ABI_SUCCESS);
    CHECK(ask(&hosts[2], 8) == RING_LL); /* made later, it begins there */
    CHECK(host_finalize(&hosts[1]) == ABI_SUCCESS && step(2) == 2); /* out of the middle */
    CHECK(ask(&hosts[0], 8) == RING_SIMPLE && ask(&hosts[2], 8) == RING_SIMPLE);
    CHECK(host_finalize(&hosts[2]) == ABI_SUCCESS && host_finalize(&hosts[0]) == ABI_SUCCESS);
    CHECK(host_finalize(&other) == ABI_SUCCESS && step(0) == 0);
}

static void check_a_schedule_by_size_is_left_alone(void)
{
    struct host host;
    set_files("#@ format 1\n#@ nodes=1 ranks=8\nring/ll\nring/simple\n", NULL);
    CHECK(host_load(&host, library, 5) && host_init(&host, 8, 1) == ABI_SUCCESS);
    CHECK(step(1) == 0 && ask(&host, 8) == RING_LL && ask(&host, 4) == RING_SIMPLE);
    CHECK(host_finalize(&host) == ABI_SUCCESS && step(0) == 0);
}

static const char *trace_text(void)
{
    static char buffer[16384];
    char path[600];
    (void)snprintf(path, sizeof path, "%s/trace", root);
    FILE *file = fopen(path, "r");
    size_t n = file == NULL ? 0 : fread(buffer, 1, sizeof buffer - 1, file);
    buffer[n] = '\0';
    if (file != NULL) {
        (void)fclose(file);
    }
    return buffer;
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        n++;
    }
    return n;
}

/* What a step was asked is in the file as soon as the next one was told, before any call of it. */
static void check_trace(void)
{
    struct host host;
    set_files(HEAD "silent\nring/ll\n", "trace");
    CHECK(host_load(&host, library, 5) && host_init(&host, 8, 1) == ABI_SUCCESS);
    CHECK(count(trace_text(), "#@ begin ") == 1 && count(trace_text(), "allreduce") == 0);
    CHECK(ask(&host, 8) == NOTHING && ask(&host, 4) == NOTHING && ask(&host, 8) == NOTHING);
    CHECK(step(1) == 1);
    CHECK(count(trace_text(), "#@ begin ") == 2 && count(trace_text(), "allreduce") == 2);
    CHECK(strstr(trace_text(), "step=1 of=2 setting=ring/ll\n") != NULL);
    CHECK(ask(&host, 16) == RING_LL && step(2) == 1);
    CHECK(count(trace_text(), "#@ begin ") == 2 && count(trace_text(), "allreduce") == 3);
    CHECK(host_finalize(&host) == ABI_SUCCESS);
    CHECK(strstr(trace_text(), "begun=2 of=2 overrun-calls=0\n") != NULL);
    CHECK(tree_put(root, "trace", ""));
    CHECK(step(0) == 0 && host_init(&host, 8, 1) == ABI_SUCCESS && step(2) == 1);
    CHECK(ask(&host, 8) == NOTHING && host_finalize(&host) == ABI_SUCCESS);
    /* Step 1 was left out, and somebody asked after the end: both must be seen. */
    CHECK(strstr(trace_text(), "begun=1 of=2 overrun-calls=1\n") != NULL);
    CHECK(step(2) == 0 && host_init(&host, 8, 1) == ABI_SUCCESS); /* made when all is over */
    CHECK(ask(&host, 8) == NOTHING && host_finalize(&host) == ABI_SUCCESS);
    CHECK(strstr(trace_text(), "begun=0 of=2 overrun-calls=1\n") != NULL);
    CHECK(step(0) == 0);
}

static atomic_bool over;

/* Communicators come, ask and go while steps are told. */
static void *come_and_go(void *argument)
{
    int version = 2 + (int)((size_t)argument % 6);
    struct host host;
    while (!atomic_load(&over)) {
        CHECK(host_load(&host, library, version) && host_init(&host, 8, 1) == ABI_SUCCESS);
        for (size_t n_bytes = 1; n_bytes < 5; n_bytes++) {
            (void)ask(&host, n_bytes);
        }
        CHECK(host_finalize(&host) == ABI_SUCCESS);
    }
    return NULL;
}

static void check_threads(void)
{
    enum { N_THREADS = 4, N_STEPS = 3 };
    pthread_t threads[N_THREADS];
    set_files(HEAD "silent\nring/ll\nring/simple\n", "trace-%c-%n");
    for (size_t i = 0; i < N_THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, come_and_go, (void *)i) == 0);
    }
    for (uint32_t i = 0; i < 200 * N_STEPS; i++) {
        int n = step(i / 200);
        CHECK(n >= 0 && n <= N_THREADS);
    }
    atomic_store(&over, true);
    for (size_t i = 0; i < N_THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(step(0) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    library = argv[1];
    void *loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    /* A function behind a data pointer, as POSIX has it. */
    *(void **)(&step) = loaded == NULL ? NULL : dlsym(loaded, "rccltune_schedule_step_v1");
    if (step == NULL) {
        (void)fprintf(stderr, "there is no rccltune_schedule_step_v1\n");
        return EXIT_FAILURE;
    }
    tree_make(root, sizeof root);
    check_files();
    for (int version = 2; version <= 7; version++) {
        check_version(version);
    }
    check_several_communicators();
    check_a_schedule_by_size_is_left_alone();
    check_trace();
    check_threads();
    tree_remove(root);
    return check_result();
}
