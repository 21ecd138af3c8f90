/* A process that forks while another thread makes communicators with a record (ThreadSanitizer
 * watches): its children end, and write nothing of their parent's: test_fork LIBRARY. */
#include "check.h"
#include "host.h"
#include "record.c" /* what a fork may find locked; the library under test has its own */
#include "tree.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_THREADS = 2, N_CHILDREN = 60, PATIENCE_S = 60 };

static struct host loaded; /* once: what the loader holds at a fork is not the question */
static atomic_bool over;

/* What a child has of its parent's threads looks lost to LeakSanitizer, test_alloc counts; and
 * ThreadSanitizer sleeps at the end of every process. */
const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
    return "detect_leaks=0";
}
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "atexit_sleep_ms=0";
}

/* The allocators of sanitizers may be locked in a child; glibc's is not. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CHILDREN_ALLOCATE 0
#endif
#endif
#ifndef CHILDREN_ALLOCATE
#define CHILDREN_ALLOCATE 1
#endif

static bool live(uint64_t n_ranks)
{
    struct host host = loaded;
    float table[21] = {1.0F};
    struct host_call call = {4, 1024, 1, 0, table, 7, 3, 0};
    return host_init(&host, n_ranks, 1) == ABI_SUCCESS && host_ask(&host, &call) == ABI_SUCCESS &&
           host_finalize(&host) == ABI_SUCCESS;
}

static void *make_communicators(void *argument)
{
    bool right = true;
    while (!atomic_load(&over)) {
        right = live(8) && right;
    }
    return right ? argument : NULL;
}

/* Every other child has a communicator of its own, of 2 ranks. */
static void be_child(int number, struct host *parents)
{
    bool right = true;
    (void)alarm(PATIENCE_S);
    if (CHILDREN_ALLOCATE && number % 2 == 0) {
        right = live(2);
    }
    if (number % 3 == 0) {
        right = host_finalize(parents) == ABI_SUCCESS && right; /* as an exit handler may */
    }
    exit(right ? 0 : 1); /* with destructors */
}

static void count_lines(const char *path, int *of_parents, int *of_children)
{
    char line[512];
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        *of_parents += strstr(line, " nRanks=4 ") != NULL ? 1 : 0;
        *of_children += strstr(line, " nRanks=2 ") != NULL ? 1 : 0;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* How a child ends that finds both locks of a record taken by a thread that it does not have. */
static void check_locked(const char *path)
{
    struct settings settings = {.record = path};
    const struct output_comm comm = {.id = "locked", .n_nodes = 1, .n_ranks = 16};
    struct record *record = NULL;
    char reason[64];
    int status = -1;
    CHECK(record_start(&settings, &comm, &record, reason, sizeof reason) == OUTPUT_STARTED);
    lock(&listing);
    lock(&record->writing);
    CHECK(process_id() == getpid());
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(PATIENCE_S);
        if (process_id() != getpid()) {
            _exit(1);
        }
        struct record *own = NULL;
        if (CHILDREN_ALLOCATE) {
            (void)record_start(&settings, &comm, &own, reason, sizeof reason);
            record_end(own);
        }
        exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(!lock_within(&listing, 10)); /* this process's own: nobody takes it over */
    unlock(&record->writing);
    unlock(&listing);
    record_end(record);
}

int main(int argc, char **argv)
{
    char root[256];
    char path[600];
    pthread_t threads[N_THREADS];
    struct host host;
    static int mark;
    CHECK(argc == 2);
    tree_make(root, sizeof root);
    (void)snprintf(path, sizeof path, "%s/record", root);
    check_locked(path);
    (void)setenv("RCCLTUNE_RECORD", path, 1);
    CHECK(host_load(&loaded, argv[1], 6));
    host = loaded;
    CHECK(host_init(&host, 4, 1) == ABI_SUCCESS);
    for (int i = 0; i < N_THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, make_communicators, &mark) == 0);
    }
    for (int i = 0; i < N_CHILDREN; i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) {
            be_child(i, &host);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    atomic_store(&over, true);
    for (int i = 0; i < N_THREADS; i++) {
        void *right = NULL;
        CHECK(pthread_join(threads[i], &right) == 0 && right == &mark);
    }
    CHECK(host_finalize(&host) == ABI_SUCCESS);
    int of_parents = 0;
    int of_children = 0;
    count_lines(path, &of_parents, &of_children);
    CHECK(of_parents == 1 && of_children == CHILDREN_ALLOCATE * N_CHILDREN / 2);
    tree_remove(root);
    return check_result();
}
