#include "meeting.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "node.h"

struct place {
    _Atomic uint32_t n_procs, joined, arrived, generation;
    _Alignas(64) char slots[];
};
/* Bytes of the file that are locked: by who comes in just now, and by all who take part. */
enum { DOOR, ALIVE };

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

bool lock_byte(int file, int command, short type, int byte)
{
    struct flock wanted = {.l_type = type, .l_start = byte, .l_len = 1};
    if (fcntl(file, command, &wanted) == 0)
        return command != F_OFD_GETLK || wanted.l_type == F_UNLCK;
    if (errno != EAGAIN && errno != EACCES)
        sim_fail("cannot lock a file: %s", strerror(errno));
    return false;
}

const char *meeting_folder(void)
{
    return env_text("RCCLTUNE_SIM_SHM_DIR");
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
        if (lock_byte(file, F_OFD_SETLK, F_WRLCK, DOOR) &&
            lock_byte(file, F_OFD_GETLK, F_WRLCK, ALIVE) && has_name(file))
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
        lock_byte(file, F_OFD_SETLKW, F_WRLCK, DOOR);
        if (has_name(file))
            return file;
        close(file);
    }
}

static void map(struct meeting *meeting, int file)
{
    meeting->file = file;
    meeting->place = mmap(NULL, meeting->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (meeting->place == MAP_FAILED)
        sim_fail("cannot map the ranks' meeting place: %s", strerror(errno));
}

static void open_in_folder(struct meeting *meeting, const char *folder, const char *key, uint32_t n)
{
    char all[PATH_MAX], path[PATH_MAX];
    unsigned long long hash = keys_with_text(keys_of(0), key);
    snprintf(all, sizeof all, "%s/rccltune-sim-%u-*", folder, (unsigned)getuid());
    snprintf(path, sizeof path, "%.*s%016llx", (int)strlen(all) - 1, all, hash);
    int file = come_in(path); /* open as long as this process takes part, for the lock */
    bool first = lock_byte(file, F_OFD_GETLK, F_WRLCK, ALIVE);
    if (first && (ftruncate(file, 0) != 0 || ftruncate(file, (off_t)meeting->bytes) != 0))
        sim_fail("cannot make the ranks' meeting place: %s", strerror(errno));
    map(meeting, file);
    struct place *place = meeting->place;
    if (first) {
        place->n_procs = n;
        sweep(all);
    }
    if (place->n_procs != n)
        sim_fail("%s belongs to a launch of %u processes", path, place->n_procs);
    if (++place->joined == n)
        unlink(path);
    lock_byte(file, F_OFD_SETLK, F_RDLCK, ALIVE);
    lock_byte(file, F_OFD_SETLK, F_UNLCK, DOOR);
}

/* The file in memory of this name that another process has open, through which it shares it. */
static int open_of_process(int process, const char *name)
{
    char folder[64], path[512], link[PATH_MAX], wanted[128];
    snprintf(folder, sizeof folder, "/proc/%d/fd", process);
    snprintf(wanted, sizeof wanted, "/memfd:%s ", name); /* and "(deleted)" */
    DIR *files = opendir(folder);
    int found = -1;
    for (struct dirent *entry; files != NULL && found < 0 && (entry = readdir(files)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        ssize_t length = readlink(path, link, sizeof link - 1);
        link[length > 0 ? length : 0] = '\0';
        if (strncmp(link, wanted, strlen(wanted)) == 0)
            found = open(path, O_RDWR | O_CLOEXEC);
    }
    if (files != NULL)
        closedir(files);
    return found;
}

static void open_by_socket(struct meeting *meeting, const char *key, uint32_t n)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char *name = address.sun_path + 1; /* a 0 before it: a name that is no file's */
    unsigned long long hash = keys_with_text(keys_of(0), key);
    int length = snprintf(name, sizeof address.sun_path - 1, "rccltune-sim-%u-%016llx",
                          (unsigned)getuid(), hash);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    for (;;) {
        int end = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (end < 0)
            sim_fail("cannot make a socket: %s", strerror(errno));
        if (bind(end, (struct sockaddr *)&address, size) == 0) {
            int file = memfd_create(name, MFD_CLOEXEC);
            if (file < 0 || ftruncate(file, (off_t)meeting->bytes) != 0)
                sim_fail("cannot make the ranks' meeting place: %s", strerror(errno));
            map(meeting, file);
            meeting->place->n_procs = n;
            meeting->socket = end;
            if (listen(end, (int)n) != 0) /* nobody is accepted: who comes looks who listens */
                sim_fail("cannot listen at a socket: %s", strerror(errno));
            break;
        }
        struct ucred maker = {0};
        socklen_t maker_size = sizeof maker;
        int file = -1;
        if (connect(end, (struct sockaddr *)&address, size) == 0 &&
            getsockopt(end, SOL_SOCKET, SO_PEERCRED, &maker, &maker_size) == 0 &&
            (file = open_of_process((int)maker.pid, name)) >= 0)
            map(meeting, file);
        close(end);
        if (file >= 0)
            break;
        sleep_for(0.0005); /* it does not listen yet, or has just gone */
    }
    if (meeting->place->n_procs != n)
        sim_fail("ranks of %u and of %u processes meet in one place", n, meeting->place->n_procs);
    /* The name, and what the others find by it, must be there until all have come. */
    meeting_wait(meeting, 0);
    if (meeting->socket >= 0)
        close(meeting->socket);
    close(meeting->file);
    meeting->file = meeting->socket = -1;
}

void meeting_open(struct meeting *meeting, const char *folder, const char *key, uint32_t n,
                  size_t slot_bytes, uint32_t n_slots)
{
    size_t slots = 2 * slot_bytes * n_slots;
    *meeting = (struct meeting){.bytes = sizeof(struct place) + slots,
                                .slot_bytes = slot_bytes,
                                .n_slots = n_slots,
                                .file = -1,
                                .socket = -1};
    if (n == 1) {
        meeting->alone = calloc(1, slots);
        if (meeting->alone == NULL)
            sim_fail("no memory for %u ranks", n_slots);
        return;
    }
    if (folder != NULL)
        open_in_folder(meeting, folder, key, n);
    else
        open_by_socket(meeting, key, n);
}

void meeting_close(struct meeting *meeting)
{
    free(meeting->alone);
    if (meeting->place != NULL)
        munmap(meeting->place, meeting->bytes);
    if (meeting->file >= 0)
        close(meeting->file);
    *meeting = (struct meeting){.file = -1, .socket = -1};
}

void *meeting_slot(const struct meeting *meeting, int rank)
{
    char *slots = meeting->place != NULL ? meeting->place->slots : meeting->alone;
    return slots + ((size_t)meeting->phase * meeting->n_slots + (size_t)rank) * meeting->slot_bytes;
}

bool meeting_wait(struct meeting *meeting, double timeout_s)
{
    struct place *place = meeting->place;
    if (place == NULL)
        return true;
    uint32_t generation = atomic_load(&place->generation);
    if (atomic_fetch_add(&place->arrived, 1) + 1 == place->n_procs) {
        atomic_store(&place->arrived, 0);
        atomic_fetch_add(&place->generation, 1);
        syscall(SYS_futex, &place->generation, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        return true;
    }
    double began = clock_now();
    while (atomic_load(&place->generation) == generation) {
        struct timespec pause = {.tv_sec = timeout_s > 0 ? 1 : 60};
        syscall(SYS_futex, &place->generation, FUTEX_WAIT, generation, &pause, NULL, 0);
        if (timeout_s > 0 && clock_now() - began > timeout_s)
            return false;
        if (clock_now() - began > longest_life())
            sim_fail("the other processes of this launch never came");
    }
    return true;
}

void meeting_turn(struct meeting *meeting)
{
    meeting->phase ^= 1;
}
