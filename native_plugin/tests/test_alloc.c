/*
 * Allocation failures, leaks and growth.  The linker sends our own malloc, calloc and realloc here
 * (--wrap), so that the k-th one can be made to fail, for every k; frees are counted too.
 */
#include "check.h"
#include "names.h"
#include "plugin.h"
#include "rule_file.h"
#include "tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *at, size_t size);
void __real_free(void *at);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *at, size_t size);
void __wrap_free(void *at);

static long fail_at = -1; /* -1: never */
static long n_allocations;
static long n_live;

static bool fails(void)
{
    return n_allocations++ == fail_at;
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *at = fails() ? NULL : __real_calloc(n, size);
    n_live += at != NULL ? 1 : 0;
    return at;
}

void *__wrap_realloc(void *at, size_t size)
{
    void *moved = fails() ? NULL : __real_realloc(at, size);
    n_live += moved != NULL && at == NULL ? 1 : 0;
    return moved;
}

void __wrap_free(void *at)
{
    n_live -= at != NULL ? 1 : 0;
    __real_free(at);
}

static char root[256];

static const struct plugin_comm comm = {
    .abi = 5, .has_id = true, .id = 1, .n_nodes = 1, .n_ranks = 64};

/* One communicator's life; the status of init. */
static enum plugin_status live(void)
{
    float cells[21] = {1.0F, 2.0F};
    struct plugin *plugin = NULL;
    enum plugin_status status = plugin_init(&comm, &plugin);
    CHECK(status == PLUGIN_READY || plugin == NULL);
    for (uint64_t i = 0; i < 200; i++) {
        struct plugin_call call = {4, i % 70, 1, 0, cells, 7, 3};
        (void)plugin_decide(plugin, &call);
    }
    plugin_finalize(plugin);
    return status;
}

/* Fails every allocation in turn until a run has none left to fail; at least `n_ending` of them are
 * init's own. */
static void fail_each(long n_ending)
{
    long n_failed = 0;
    long n_unsure = 0;
    for (fail_at = 0;; fail_at++) {
        n_allocations = 0;
        enum plugin_status status = live();
        CHECK(n_live == 0);
        CHECK(status != PLUGIN_WRONG); /* memory may be short on this rank alone */
        n_unsure += status == PLUGIN_UNSURE ? 1 : 0;
        if (n_allocations <= fail_at) {
            CHECK(status == PLUGIN_READY);
            break;
        }
        n_failed++;
    }
    fail_at = -1;
    CHECK(n_failed > 10 && n_unsure >= n_ending);
    (void)fprintf(stdout, "%ld allocations failed in turn, %ld of them ended init\n", n_failed,
                  n_unsure);
}

static int open_files(void)
{
    int n = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory != NULL && readdir(directory) != NULL) {
        n++;
    }
    if (directory != NULL) {
        (void)closedir(directory);
    }
    return n;
}

static void repeat(int times)
{
    int before = open_files();
    for (int i = 0; i < times; i++) {
        CHECK(live() == PLUGIN_READY);
    }
    CHECK(n_live == 0 && open_files() == before);
}

int main(int argc, char **argv)
{
    char path[600];
    CHECK(argc == 2);
    (void)argv;
    tree_make(root, sizeof root);
    (void)snprintf(path, sizeof path, "%s/mi300x-cpx-nps4.machine", argv[1]);
    CHECK(tree_write(path, root));
    (void)setenv("RCCLTUNE_SYSROOT", root, 1);
    CHECK(tree_put(root, "rccl_tuner_gfx942_cpx-nps4.csv",
                   "collective,a,b,c,d,e,f,g\n#@ requires arch=gfx942\n"
                   "allreduce,0,9,ring,ll,-1,-1,-1\nallreduce,0,90,tree,ll,-1,-1,-1\n"
                   "allgather,5,7,ring,ll,-1,-1,-1,1,0\n"));
    (void)setenv("RCCLTUNE_CONFIG_DIR", root, 1);
    int null = open("/dev/null", O_WRONLY);
    CHECK(null >= 0 && dup2(null, STDERR_FILENO) == STDERR_FILENO); /* the complaints are many */
    repeat(200);
    fail_each(6);
    (void)snprintf(path, sizeof path, "decisions:%s/log", root);
    (void)setenv("RCCLTUNE_LOG", path, 1);
    repeat(5);
    fail_each(6);
    (void)snprintf(path, sizeof path, "%s/record", root);
    (void)setenv("RCCLTUNE_RECORD", path, 1);
    repeat(5);
    fail_each(6);
    (void)unsetenv("RCCLTUNE_RECORD");
    (void)unsetenv("RCCLTUNE_LOG");
    repeat(5);
    (void)setenv("RCCLTUNE_ON_ERROR", "ignore", 1);
    for (fail_at = 0; fail_at < 30; fail_at++) {
        n_allocations = 0;
        CHECK(live() == PLUGIN_READY && n_live == 0);
    }
    tree_remove(root);
    if (check_failures > 0) {
        (void)printf("%d checks failed\n", check_failures);
    }
    return check_failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
