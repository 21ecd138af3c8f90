#include "world.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { MAX_COMMUNICATORS = 64 };

static struct board {
    struct id ids[MAX_COMMUNICATORS];
    _Atomic int n_ids;
    double shared[WORLD_SHARED];
} * board;
static int n_made;
double *world_shared;

void world_open(struct world *world)
{
    const char *file = getenv("SIM_LIBRARY");
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s: %s\n", file, dlerror());
        _exit(70);
    }
#define FIND(result, name, arguments)                                                              \
    memcpy(&world->name, &(void *){dlsym(library, #name)}, sizeof(void *));                        \
    if (world->name == NULL && strstr(#name, "moves") == NULL) { /* which no real library has */   \
        fprintf(stderr, "%s has no " #name "\n", file);                                            \
        _exit(70);                                                                                 \
    }
    LIBRARY_FUNCTIONS(FIND)
}

static void pause_for(double seconds)
{
    struct timespec t = {.tv_nsec = (long)(seconds * 1e9)};
    nanosleep(&t, NULL);
}

int world_communicator(struct world *world)
{
    int number = n_made++;
    if (world->rank == 0) {
        CHECK(world->ncclGetUniqueId(&board->ids[number]) == 0);
        atomic_store(&board->n_ids, number + 1);
    }
    while (atomic_load(&board->n_ids) <= number)
        pause_for(0.0002);
    return world->ncclCommInitRank(&world->comm, world->n_ranks, board->ids[number], world->rank);
}

static void run_rank(int rank, int n, void (*function)(struct world *, void *), void *argument)
{
    static struct world world;
    check_failures = 0; /* of the parent's */
    world.rank = rank;
    world.n_ranks = n;
    world_open(&world);
    int n_devices = 0;
    CHECK(world.hipGetDeviceCount(&n_devices) == 0);
    CHECK(world.hipSetDevice(rank % (n_devices > 0 ? n_devices : 1)) == 0);
    CHECK(world.hipStreamCreateWithFlags(&world.stream, 1) == 0);
    function(&world, argument);
    fflush(stdout);
    _exit(check_failures != 0);
}

int world_run(int n, double seconds, void (*function)(struct world *, void *), void *argument)
{
    pid_t *pids = calloc((size_t)n, sizeof *pids);
    int worst = 0, left = n;
    if (board != NULL)
        munmap(board, sizeof *board);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    world_shared = board->shared;
    fflush(NULL);
    for (int i = 0; i < n; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            run_rank(i, n, function, argument);
    }
    for (double waited = 0; left > 0; waited += 0.002) {
        for (int i = 0; i < n; i++) {
            int status;
            if (pids[i] == 0 || waitpid(pids[i], &status, WNOHANG) != pids[i])
                continue;
            int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            worst = worst < 0 ? worst : code > worst ? code : worst;
            pids[i] = 0;
            left--;
        }
        if (left > 0 && waited > seconds) {
            for (int i = 0; i < n; i++) {
                if (pids[i] != 0)
                    kill(pids[i], SIGKILL);
            }
            worst = -1;
        }
        pause_for(0.002);
    }
    free(pids);
    return worst;
}
