/*
 * The launcher's environment, the file in memory where the processes of one launch meet, and their
 * barrier; and which jobs run beside this one.
 *
 * The first process makes the file, the last to arrive takes its name away again, so that nothing
 * is left behind however the processes end later.  Who takes part holds a lock that the kernel
 * drops when the process is gone, killed or not: a file without one is a dead launch's, and goes to
 * the next.  Waiting is a futex: 64 processes on two cores cost nothing while they wait, and a
 * process that dies leaves the others asleep, not spinning.
 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int number(const char *name, int otherwise)
{
    int64_t n = env_number(name, otherwise);
    return n > MAX_RANKS ? MAX_RANKS + 1 : (int)n;
}

static const char *word(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? value : "";
}

/* RCCLTUNE_SIM_LINKED=openmpi makes the program one that was linked to that MPI: another launcher's
 * environment means nothing to it and every process runs alone, which is what a real mismatch does.
 */
static bool linked_to(const char *name)
{
    const char *linked = env_text("RCCLTUNE_SIM_LINKED");
    return linked == NULL || strcmp(linked, name) == 0;
}

void launch_find(struct launch *launch, int default_procs)
{
    static const struct {
        const char *name, *rank, *size, *local_size;
    } launchers[] = {
        {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
        {"mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
        {"slurm", "SLURM_PROCID", "SLURM_NTASKS", ""},
    };
    int procs = number("RCCLTUNE_SIM_RANKS", 0);
    bool foreign = false;
    memset(launch, 0, sizeof *launch);
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers && procs == 0; i++) {
        int rank = number(launchers[i].rank, -1), size = number(launchers[i].size, 0);
        /* A shell inside an allocation has SLURM_NTASKS, but only srun's children have a step. */
        if (rank < 0 || size < 1 || rank >= size ||
            (strcmp(launchers[i].name, "slurm") == 0 && *word("SLURM_STEP_ID") == '\0'))
            continue;
        if (!linked_to(launchers[i].name)) {
            foreign = true;
            continue;
        }
        /* Hosts that are namespaces of one kernel can share memory, where somebody says so. */
        bool spread = number(launchers[i].local_size, size) != size;
        if (spread && env_text("RCCLTUNE_SIM_SHM_DIR") == NULL)
            sim_fail("a simulated node runs on one host; its node file says how many it plays");
        launch->launched = true;
        launch->proc = rank;
        launch->n_procs = size;
        snprintf(launch->key, sizeof launch->key, "%.60s/%.60s/%.10s.%.10s/%d",
                 word("RCCLTUNE_RUN_ID"), word("PMIX_NAMESPACE"), word("SLURM_JOB_ID"),
                 word("SLURM_STEP_ID"),
                 /* Hydra names no job; all ranks of a host are children of one proxy. */
                 *word("PMIX_NAMESPACE") == '\0' && *word("SLURM_STEP_ID") == '\0' && !spread
                     ? (int)getppid()
                     : 0);
        return;
    }
    launch->n_procs = procs > 0 ? procs : foreign || default_procs < 1 ? 1 : default_procs;
}

/* Take, give back or (F_OFD_GETLK) only ask for the lock of a byte; false where another open file
 * has it. */
static bool lock(int file, int command, short type, int byte)
{
    struct flock wanted = {.l_type = type, .l_start = byte, .l_len = 1};
    if (fcntl(file, command, &wanted) == 0)
        return command != F_OFD_GETLK || wanted.l_type == F_UNLCK;
    if (errno != EAGAIN && errno != EACCES)
        sim_fail("cannot lock a file: %s", strerror(errno));
    return false;
}

struct shared {
    uint32_t n_procs, joined;
    _Atomic uint32_t arrived, generation;
    struct slot slots[2][MAX_RANKS];
};
/* Bytes of the file that are locked: by who comes in just now, and by all who take part. */
enum { DOOR, ALIVE };

static struct {
    struct shared *shared;
    int phase;
} here;

/* A bound on waiting for ever: a process that nobody ends must not outlive the day's work. */
static double longest_life(void)
{
    double seconds = env_double("RCCLTUNE_SIM_LONGEST_LIFE_S", 0);
    return seconds > 0 ? seconds : 1800;
}

void wait_for_ever(void)
{
    fflush(stdout);
    sleep_for(longest_life());
    sim_fail("nobody ended this hanging process; it ends itself after %g s", longest_life());
}

static const char *directory(void)
{
    const char *chosen = env_text("RCCLTUNE_SIM_SHM_DIR");
    return chosen != NULL ? chosen : access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
}

/* Only who is in the door takes a name away, so that it means this file as long as it is there. */
static bool has_name(int file)
{
    struct stat info;
    return fstat(file, &info) == 0 && info.st_nlink > 0;
}

/* Files of launches that died before their last process had arrived. */
static void sweep(const char *pattern)
{
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        int file = open(found.gl_pathv[i], O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (file < 0)
            continue;
        if (lock(file, F_OFD_SETLK, F_WRLCK, DOOR) && lock(file, F_OFD_GETLK, F_WRLCK, ALIVE) &&
            has_name(file))
            unlink(found.gl_pathv[i]);
        close(file);
    }
    globfree(&found);
}

/* The launch's file, with this process in its door. */
static int come_in(const char *path)
{
    for (;;) {
        int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file < 0)
            sim_fail("cannot make %s: %s", path, strerror(errno));
        lock(file, F_OFD_SETLKW, F_WRLCK, DOOR);
        if (has_name(file))
            return file;
        close(file);
    }
}

void meet_start(const struct launch *launch)
{
    static struct shared alone = {.n_procs = 1};
    char all[PATH_MAX], path[PATH_MAX];
    uint32_t n_procs = launch->launched ? (uint32_t)launch->n_procs : 1;
    here.shared = &alone;
    if (n_procs == 1)
        return;
    unsigned long long key = keys_with_text(keys_of(0), launch->key);
    snprintf(all, sizeof all, "%s/rccltune-sim-%u-*", directory(), (unsigned)getuid());
    snprintf(path, sizeof path, "%.*s%016llx", (int)strlen(all) - 1, all, key);
    int file = come_in(path); /* open as long as this process lives, for the lock */
    bool first = lock(file, F_OFD_GETLK, F_WRLCK, ALIVE);
    if (first && (ftruncate(file, 0) != 0 || ftruncate(file, sizeof(struct shared)) != 0))
        sim_fail("cannot make the ranks' meeting place: %s", strerror(errno));
    struct shared *s =
        mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (s == MAP_FAILED)
        sim_fail("cannot map the ranks' meeting place: %s", strerror(errno));
    if (first) {
        s->n_procs = n_procs;
        sweep(all);
    }
    if (s->n_procs != n_procs)
        sim_fail("%s belongs to a launch of %u processes", path, s->n_procs);
    if (++s->joined == n_procs)
        unlink(path);
    lock(file, F_OFD_SETLK, F_RDLCK, ALIVE);
    lock(file, F_OFD_SETLK, F_UNLCK, DOOR);
    here.shared = s;
}

struct slot *meet_slot(int world_rank)
{
    /* Two halves in turn: nobody can write the next block into a half that is still being read. */
    return &here.shared->slots[here.phase][world_rank];
}

bool meet(double timeout_s)
{
    struct shared *s = here.shared;
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

/* The file beside the node's where a byte stands for each collective; -1 where no variant asks. */
static int running_file(const struct node *node, const char *node_path)
{
    char path[4096];
    bool asked = false;
    for (int i = 0; i < node->n_variants; i++) {
        for (int j = 0; j < node->variants[i].n_conditions; j++)
            asked |= node->variants[i].conditions[j].kind == WHEN_BESIDE;
    }
    snprintf(path, sizeof path, "%s.running", node_path);
    int file = asked ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (asked && file < 0)
        sim_fail("cannot open %s: %s", path, strerror(errno));
    return file;
}

/* Ranks ask at the same time, and one that locked to find out would look to the next like a job. */
uint32_t running_beside(const struct node *node, const char *node_path)
{
    int file = running_file(node, node_path);
    uint32_t found = 0;
    for (int i = 0; i < N_COLLECTIVES && file >= 0; i++)
        found |= (uint32_t)!lock(file, F_OFD_GETLK, F_WRLCK, i) << i;
    if (file >= 0)
        close(file);
    return found;
}

void tell_running(const struct node *node, const char *node_path, int collective)
{
    int file = running_file(node, node_path); /* stays open, for the lock */
    if (file >= 0)
        lock(file, F_OFD_SETLK, F_RDLCK, collective);
}
