/*
 * The file in memory where the processes of one launch meet, and their barrier.
 *
 * The first process makes the file (O_EXCL), the last to arrive takes its name away again, so that
 * nothing is left behind however the processes end later; a file whose maker is dead is swept by
 * the next launch.  Waiting is a futex: 64 processes on two cores cost nothing while they wait, and
 * a process that dies leaves the others asleep, not spinning.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launch.h"
#include "times.h"

enum { READY = 0x72636332, PATIENCE_S = 120 };

struct shared {
    _Atomic uint32_t ready;
    uint32_t n_procs;
    int64_t maker, maker_started;
    _Atomic uint32_t joined, arrived, generation;
    double agreed;
    struct slot slots[2][MAX_RANKS];
};

static struct {
    struct shared *shared; /* NULL with one process */
    struct slot *own;      /* then this, two halves as well */
    int proc, n_procs, phase;
} here;

/* A bound on waiting for ever: a process that nobody ends must not outlive the day's work. */
static double longest_life(void)
{
    const char *limit = getenv("RCCLTUNE_SIM_LONGEST_LIFE_S");
    double seconds = limit != NULL ? strtod(limit, NULL) : 0;
    return seconds > 0 ? seconds : 1800;
}

void wait_for_ever(void)
{
    fflush(stdout);
    sleep_for(longest_life());
    sim_fail("nobody ended this hanging process; it ends itself after %g s", longest_life());
}

/* When a process started, in clock ticks since boot (proc(5), field 22); 0 where it is gone. */
static int64_t started(int64_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    char *at = strrchr(text, ')'); /* the name before it may hold anything */
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at == NULL ? 0 : strtoll(at + 1, NULL, 10);
}

static const char *directory(void)
{
    const char *chosen = getenv("RCCLTUNE_SIM_SHM_DIR"), *tmp = getenv("TMPDIR");
    if (chosen != NULL && *chosen != '\0')
        return chosen;
    if (access("/dev/shm", W_OK | X_OK) == 0)
        return "/dev/shm";
    return tmp != NULL && *tmp != '\0' ? tmp : "/tmp";
}

static struct shared *map_file(int fd)
{
    void *memory = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

static bool maker_is_gone(const struct shared *shared)
{
    return started(shared->maker) != shared->maker_started;
}

/* Files of launches whose maker died before the last process had arrived. */
static void sweep(const char *folder, const char *prefix)
{
    DIR *list = opendir(folder);
    struct dirent *entry;
    while (list != NULL && (entry = readdir(list)) != NULL) {
        char path[PATH_MAX];
        struct stat info;
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 || fstat(fd, &info) != 0 || info.st_size < (off_t)sizeof(struct shared)) {
            if (fd >= 0)
                close(fd);
            continue;
        }
        struct shared *other = map_file(fd);
        if (other != NULL && atomic_load(&other->ready) == READY && maker_is_gone(other))
            unlink(path);
        if (other != NULL)
            munmap(other, sizeof *other);
    }
    if (list != NULL)
        closedir(list);
}

static struct shared *make(int fd, int n_procs)
{
    if (ftruncate(fd, sizeof(struct shared)) != 0)
        sim_fail("cannot make the ranks' meeting place: %s", strerror(errno));
    struct shared *shared = map_file(fd);
    if (shared == NULL)
        sim_fail("cannot map the ranks' meeting place: %s", strerror(errno));
    shared->n_procs = (uint32_t)n_procs;
    shared->maker = getpid();
    shared->maker_started = started(getpid());
    atomic_store(&shared->ready, READY);
    return shared;
}

/* Somebody else's file, once it is ready; NULL when it is stale and was removed, or not there yet.
 */
static struct shared *join(const char *path)
{
    struct stat info;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &info) != 0 || info.st_size < (off_t)sizeof(struct shared)) {
        close(fd);
        return NULL;
    }
    struct shared *shared = map_file(fd);
    if (shared == NULL || atomic_load(&shared->ready) != READY) {
        if (shared != NULL)
            munmap(shared, sizeof *shared);
        return NULL;
    }
    if (maker_is_gone(shared)) {
        /* Only if the name still means this file: another process may have swept it already. */
        struct stat named;
        if (stat(path, &named) == 0 && named.st_ino == info.st_ino)
            unlink(path);
        munmap(shared, sizeof *shared);
        return NULL;
    }
    return shared;
}

void meet_start(const struct launch *launch, int n_ranks)
{
    here.proc = launch->proc;
    here.n_procs = launch->launched ? launch->n_procs : 1;
    if (here.n_procs == 1) {
        here.own = calloc(2 * (size_t)n_ranks, sizeof *here.own);
        if (here.own == NULL)
            sim_fail("no memory for %d ranks", n_ranks);
        here.n_procs = 1;
        here.phase = 0;
        return;
    }
    char prefix[48], path[PATH_MAX];
    snprintf(prefix, sizeof prefix, "rccltune-sim-%u-", (unsigned)getuid());
    snprintf(path, sizeof path, "%s/%s%016llx", directory(), prefix,
             (unsigned long long)keys_with_text(keys_of(0), launch->key).state);
    for (double waited = 0; here.shared == NULL; waited += 0.01) {
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0) {
            here.shared = make(fd, here.n_procs);
            sweep(directory(), prefix);
        } else if (errno != EEXIST) {
            sim_fail("cannot make %s: %s", path, strerror(errno));
        } else if ((here.shared = join(path)) == NULL) {
            sleep_for(0.01);
        }
        if (waited > PATIENCE_S)
            sim_fail("%s never became ready", path);
    }
    if (here.shared->n_procs != (uint32_t)here.n_procs)
        sim_fail("%s belongs to a launch of %u processes", path, here.shared->n_procs);
    if (atomic_fetch_add(&here.shared->joined, 1) + 1 == here.shared->n_procs)
        unlink(path);
}

void meet_stop(void)
{
    if (here.shared != NULL)
        munmap(here.shared, sizeof *here.shared);
    free(here.own);
    memset(&here, 0, sizeof here);
}

struct slot *meet_slot(int world_rank)
{
    /* Two halves in turn: nobody can write the next block into a half that is still being read. */
    if (here.shared != NULL)
        return &here.shared->slots[here.phase][world_rank];
    return &here.own[2 * world_rank + here.phase];
}

bool meet(double timeout_s)
{
    struct shared *s = here.shared;
    if (s == NULL)
        return true;
    uint32_t generation = atomic_load(&s->generation);
    if (atomic_fetch_add(&s->arrived, 1) + 1 == s->n_procs) {
        atomic_store(&s->arrived, 0);
        atomic_fetch_add(&s->generation, 1);
        syscall(SYS_futex, &s->generation, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        return true;
    }
    double began = clock_now();
    while (atomic_load(&s->generation) == generation) {
        struct timespec pause = {.tv_sec = timeout_s > 0 ? 1 : 60};
        syscall(SYS_futex, &s->generation, FUTEX_WAIT, generation, &pause, NULL, 0);
        if (timeout_s > 0 && clock_now() - began > timeout_s)
            return false;
        if (clock_now() - began > longest_life())
            sim_fail("the other processes of this launch never came");
    }
    return true;
}

void meet_turn(void)
{
    here.phase ^= 1;
}

double meet_agree(double value)
{
    if (here.shared == NULL)
        return value;
    if (here.proc == 0)
        here.shared->agreed = value;
    meet(0);
    return here.shared->agreed;
}
