/* zero_pages.c before libc: what is sent, copied and cleared is what libc would have made of it,
 * and what nobody wrote is still not there. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "resident.h"

enum { SIZE = 64 << 20, WRITTEN = 3 };
static const size_t places[WRITTEN] = {5, 33 << 20, SIZE - 1};
/* Called through here, so that no compiler puts its own in their place. */
static void *(*volatile clear)(void *, int, size_t) = memset;
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;
static void *(*volatile move)(void *, const void *, size_t) = memmove;

/* A machine that swaps, and some pages of ours that it swapped out: these stand before libc's. */
static bool swaps;
static uintptr_t out_from, out_to;

__attribute__((visibility("default"))) int sysinfo(struct sysinfo *machine)
{
    *machine = (struct sysinfo){.totalswap = 2, .freeswap = swaps ? 1 : 2};
    return 0;
}

__attribute__((visibility("default"))) ssize_t pread(int file, void *to, size_t n, off_t offset)
{
    ssize_t got = syscall(SYS_pread64, file, to, n, offset);
    uint64_t *entries = to;
    for (size_t i = 0; swaps && got > 0 && i < (size_t)got / sizeof *entries; i++) {
        uintptr_t page = ((uintptr_t)offset / sizeof *entries + i) * 4096;
        if (page >= out_from && page < out_to)
            entries[i] |= (uint64_t)1 << 62;
    }
    return got;
}

static char *room(void)
{
    char *at = mmap(NULL, SIZE + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at + 3; /* no page's beginning */
}

static int holds_what_was_written(const char *at)
{
    for (int i = 0; i < WRITTEN; i++) {
        if (at[places[i]] != (char)(i + 1))
            return 0;
    }
    return at[4096] == 0 && at[17 << 20] == 0;
}

static void write_places(char *at)
{
    for (int i = 0; i < WRITTEN; i++)
        at[places[i]] = (char)(i + 1);
}

/* As RCCL does: try, and try again. */
static void send_all(int socket, const char *from)
{
    for (size_t done = 0; done < SIZE;) {
        ssize_t k = send(socket, from + done, SIZE - done, MSG_DONTWAIT);
        done += k > 0 ? (size_t)k : 0;
    }
}

static void receive_all(int socket, char *to)
{
    for (size_t done = 0; done < SIZE;) {
        ssize_t k = recv(socket, to + done, SIZE - done, MSG_DONTWAIT);
        done += k > 0 ? (size_t)k : 0;
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* How often a wait of so many seconds asks, when it asks each microsecond. */
static int times_asked(double seconds)
{
    int n = 0;
    for (double end = now() + seconds; now() < end; n++)
        usleep(1);
    return n;
}

int main(void)
{
    int sockets[2], status = -1;
    char *from = room(), *to = room(), *other = room();
    long before = resident_mib();
    clear(from, 0, SIZE);
    write_places(from);
    to[9] = 9; /* must be gone afterwards */
    copy(to, from, SIZE);
    CHECK(holds_what_was_written(to) && to[9] == 0);
    CHECK(resident_mib() - before < 8);
    swaps = true; /* and still nothing costs memory but what was written, or swapped out */
    char *far = room();
    copy(far, from, SIZE);
    CHECK(holds_what_was_written(far) && resident_mib() - before < 8);
    out_from = (uintptr_t)from + (20 << 20);
    out_to = out_from + (24 << 20);
    copy(far, from, SIZE);
    CHECK(holds_what_was_written(far) && resident_mib() - before >= 24);
    swaps = false;
    munmap(far - 3, SIZE + 4096);
    madvise((void *)(out_from / 4096 * 4096), 24 << 20, MADV_DONTNEED);
    write_places(from);
    clear(to, 0, SIZE);
    CHECK(to[places[2]] == 0);
    move(to + 100, from, SIZE - 200);
    CHECK(to[100 + places[0]] == 1);
    char text[16] = "abcdefgh";
    move(text + 2, text, 6);
    CHECK(strcmp(text, "ababcdef") == 0);
    move(text, text + 2, 6);
    CHECK(strncmp(text, "abcdef", 6) == 0);

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    pid_t child = fork();
    if (child == 0) { /* another process reads it */
        receive_all(sockets[1], other);
        _exit(holds_what_was_written(other) && resident_mib() - before < 16 ? 0 : 1);
    }
    other[9] = 9;
    send_all(sockets[0], from);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    send_all(sockets[0], from); /* and this one */
    receive_all(sockets[1], other);
    CHECK(holds_what_was_written(other) && other[9] == 0);
    CHECK(send(sockets[0], "small", 5, 0) == 5 && recv(sockets[1], text, 5, 0) == 5);
    CHECK(strncmp(text, "small", 5) == 0);

    /* libc's would ask about 3000 times, and one that goes on where the wait before ended four. */
    int first = times_asked(0.2);
    for (double end = now() + 0.002; now() < end;)
        ; /* the library works, and then waits anew */
    int second = times_asked(0.2);
    CHECK(first > 8 && first < 300 && second > 8 && second < 300);
    double before_long = now();
    CHECK(usleep(100000) == 0 && now() - before_long >= 0.1);
    return check_failures != 0;
}
