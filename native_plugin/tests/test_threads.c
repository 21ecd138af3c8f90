/* Many communicators at once, and one communicator asked from many threads (ThreadSanitizer
 * watches): test_threads LIBRARY. */
#include "check.h"
#include "host.h"
#include "tree.h"

#include <pthread.h>
#include <stdatomic.h>

enum { N_THREADS = 8, N_ROUNDS = 25 };

static const char *library;
static struct host shared;
static atomic_int n_wrong;

static void expect(bool right)
{
    if (!right) {
        atomic_fetch_add(&n_wrong, 1);
    }
}

static void ask(struct host *host, size_t n_bytes, int wanted)
{
    float table[21];
    struct host_call call = {4, n_bytes, 1, 0, table, 7, 3, 0};
    for (int i = 0; i < 21; i++) {
        table[i] = 5.0F;
    }
    expect(host_ask(host, &call) == ABI_SUCCESS);
    expect(wanted < 0 || table[wanted] <= 0.0F);
}

static void *work(void *argument)
{
    int version = 2 + (int)((size_t)argument % 6);
    struct host host;
    for (int i = 0; i < N_ROUNDS; i++) {
        expect(host_load(&host, library, version));
        expect(host_init(&host, 8, 1) == ABI_SUCCESS && host.context != NULL);
        for (size_t n_bytes = 0; n_bytes < 40; n_bytes++) {
            ask(&host, n_bytes, n_bytes < 10 ? 3 : n_bytes < 20 ? 5 : -1);
            ask(&shared, n_bytes, n_bytes < 10 ? 3 : n_bytes < 20 ? 5 : -1);
        }
        expect(host_finalize(&host) == ABI_SUCCESS);
    }
    return NULL;
}

static void run(void)
{
    pthread_t threads[N_THREADS];
    CHECK(host_load(&shared, library, 5) && host_init(&shared, 8, 1) == ABI_SUCCESS);
    for (size_t i = 0; i < N_THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(host_finalize(&shared) == ABI_SUCCESS);
    CHECK(atomic_load(&n_wrong) == 0);
}

/* All calls that a file of records has. */
static unsigned long long recorded(const char *path)
{
    unsigned long long total = 0;
    char line[512];
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        unsigned long long calls = 0;
        if (sscanf(line, "allreduce,%*u,8,1,%llu,", &calls) == 1) {
            total += calls;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return total;
}

int main(int argc, char **argv)
{
    char root[256];
    char path[600];
    CHECK(argc == 2);
    library = argv[1];
    tree_make(root, sizeof root);
    CHECK(tree_put(root, "rules.csv",
                   "allreduce,0,9,ring,ll,-1,-1,-1\nallreduce,10,19,ring,simple,-1,-1,-1\n"));
    (void)snprintf(path, sizeof path, "%s/rules.csv", root);
    (void)setenv("NCCL_TUNER_CONFIG_FILE", path, 1);
    run();
    (void)snprintf(path, sizeof path, "decisions:%s/log", root);
    (void)setenv("RCCLTUNE_LOG", path, 1);
    (void)snprintf(path, sizeof path, "%s/record", root);
    (void)setenv("RCCLTUNE_RECORD", path, 1);
    run();
    /* Every thread's own communicators, and the shared one. */
    CHECK(recorded(path) == 2ULL * N_THREADS * N_ROUNDS * 40);
    tree_remove(root);
    return check_result();
}
