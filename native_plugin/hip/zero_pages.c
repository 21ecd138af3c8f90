/*
 * What makes 64 ranks affordable.  While it makes a communicator RCCL gathers a table of XML nodes,
 * 107 MB, from every rank into every rank, and clears each one: 445 GB for 64 ranks of one host,
 * nearly all of it zeros.  Put before libc (LD_PRELOAD or ld.so --preload), these functions leave
 * pages that nobody wrote untouched, and send only what was written:
 *
 *   memset, memcpy, memmove   of 16 MiB and more skip pages that are not resident
 *   send, recv                of 16 MiB and more put what is not zero into a file in memory and its
 *                             name on the socket; the other end opens /proc/<pid>/fd, which needs
 *                             no more than the same user (process_vm_readv needs ptrace's rights)
 *   recv, accept, sched_yield, usleep
 *                             sleep where the library would spin, or nearly so
 *   poll                      of the half second after which the library's service threads look
 *                             whether they are to end, a tenth of that: who destroys a communicator
 *                             waits for them
 *   fopen                     of HIP_TOPOLOGY_FILE reads what the calling thread's device would see
 *
 * Measured on 2 cores: 8 ranks 43 s and 6.5 GB without, 0.3 s and 0.1 GB with it.  64 processes
 * take 25 s of processor time to start, 69 s where usleep is libc's and recv tries each ms.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "hip.h"

#define BIG             ((size_t)16 << 20)
#define PAGE            ((uintptr_t)4096)
#define LONGEST_SLEEP_S 0.05
enum { PAGES_AT_ONCE = 8192, LINE = 64, LONGEST_POLL_MS = 20, SERVICE_MS = 500 };

/* libc's own would call these functions again. */
static void *set_bytes(void *to, int value, size_t n)
{
    void *at = to;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(value) : "memory");
    return to;
}

static void *copy_bytes(void *to, const void *from, size_t n)
{
    void *at = to;
    __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(n) : : "memory");
    return to;
}

typedef void (*run_function)(void *argument, const char *from, size_t n, bool is_resident);

/* mincore(2) does not tell a page that was swapped out from one that nobody touched, so where the
 * machine has swapped anything out /proc/self/pagemap is asked too (bit 62: Linux,
 * admin-guide/mm/pagemap.rst).  False where that says nothing. */
static bool add_swapped(uintptr_t first, size_t pages, unsigned char *resident)
{
    static const uint64_t swapped = (uint64_t)1 << 62;
    struct sysinfo machine;
    if (sysinfo(&machine) == 0 && machine.freeswap == machine.totalswap)
        return true;
    /* Opened anew each time: after a fork an older one would still tell of the parent. */
    int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    uint64_t entries[PAGES_AT_ONCE / 16];
    size_t at = 0;
    while (at < pages) {
        size_t n = pages - at < PAGES_AT_ONCE / 16 ? pages - at : PAGES_AT_ONCE / 16;
        off_t offset = (off_t)((first / PAGE + at) * sizeof(uint64_t));
        if (pread(file, entries, n * sizeof(uint64_t), offset) != (ssize_t)(n * sizeof(uint64_t)))
            break;
        for (size_t i = 0; i < n; i++)
            resident[at + i] |= (entries[i] & swapped) != 0;
        at += n;
    }
    close(file);
    return at >= pages;
}

/* Call `each` for runs of bytes that lie in pages with something in them, or in pages that nobody
 * touched. */
static void runs(const char *at, size_t n, run_function each, void *argument)
{
    unsigned char resident[PAGES_AT_ONCE];
    uintptr_t start = (uintptr_t)at, end = start + n;
    for (uintptr_t first = start / PAGE * PAGE; first < end; first += PAGES_AT_ONCE * PAGE) {
        size_t pages = (end - first + PAGE - 1) / PAGE;
        if (pages > PAGES_AT_ONCE)
            pages = PAGES_AT_ONCE;
        bool known = syscall(SYS_mincore, first, pages * PAGE, resident) == 0 &&
                     add_swapped(first, pages, resident);
        for (size_t i = 0, j; i < pages; i = j) {
            bool in = !known || (resident[i] & 1) != 0;
            for (j = i + 1; j < pages && (!known || ((resident[j] & 1) != 0) == in); j++)
                ;
            uintptr_t from = first + i * PAGE, to = first + j * PAGE;
            from = from < start ? start : from;
            to = to > end ? end : to;
            each(argument, (const char *)from, to - from, in);
        }
    }
}

static void clear_run(void *argument, const char *at, size_t n, bool is_resident)
{
    (void)argument;
    if (is_resident)
        set_bytes((void *)(uintptr_t)at, 0, n);
}

EXPORT void *memset(void *to, int value, size_t n)
{
    if (n < BIG || value != 0)
        return set_bytes(to, value, n);
    runs(to, n, clear_run, NULL);
    return to;
}

struct copy {
    char *to;
    const char *from;
};

static void copy_run(void *argument, const char *from, size_t n, bool is_resident)
{
    struct copy *copy = argument;
    char *to = copy->to + (from - copy->from);
    if (is_resident)
        copy_bytes(to, from, n);
    else
        runs(to, n, clear_run, NULL);
}

EXPORT void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    if (n < BIG)
        return copy_bytes(to, from, n);
    runs(from, n, copy_run, &(struct copy){to, from});
    return to;
}

EXPORT void *memmove(void *to, const void *from, size_t n)
{
    uintptr_t a = (uintptr_t)to, b = (uintptr_t)from;
    if (a <= b || a >= b + n)
        return a + n <= b || a >= b + n ? memcpy(to, from, n) : copy_bytes(to, from, n);
    char *last = (char *)to + n;
    const char *source = (const char *)from + n;
    while (n-- > 0)
        *--last = *--source;
    return to;
}

/* A message in the outbox, and what goes over the socket in its place. */
struct piece {
    size_t at, n;
};
struct ticket {
    uint64_t magic;
    int32_t process, file;
    uint64_t offset, n_pieces, n_bytes; /* the pieces, then their bytes, in the file */
};
static const uint64_t ticket_magic = 0x7463636c73696d21;

static pthread_mutex_t outbox_lock = PTHREAD_MUTEX_INITIALIZER;
static int outbox = -1;
static off_t outbox_end;

_Noreturn static void give_up(const char *what)
{
    fprintf(stderr,
            "rccltune's stand-in HIP runtime cannot pass a message between ranks: %s: %s; ranks as "
            "threads of one process need no such passing (--launcher none)\n",
            what, strerror(errno));
    abort();
}

static void all_written(int file, const void *from, size_t n, off_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = pwrite(file, (const char *)from + done, n - done, at + (off_t)done);
        if (k <= 0)
            give_up("writing to memory");
        done += (size_t)k;
    }
}

static void all_read(int file, void *to, size_t n, off_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = pread(file, (char *)to + done, n - done, at + (off_t)done);
        if (k <= 0)
            give_up("reading another rank's memory");
        done += (size_t)k;
    }
}

struct written {
    const char *base;
    struct piece *pieces;
    size_t n_pieces, room, n_bytes;
};

static void add_piece(struct written *written, const char *at, size_t n)
{
    if (written->n_pieces == written->room) {
        written->room = 2 * written->room + 16;
        written->pieces = realloc(written->pieces, written->room * sizeof *written->pieces);
        if (written->pieces == NULL)
            give_up("noting what was written");
    }
    written->pieces[written->n_pieces++] = (struct piece){(size_t)(at - written->base), n};
    written->n_bytes += n;
}

static bool is_zero(const char *at, size_t n)
{
    return n == 0 || (at[0] == 0 && memcmp(at, at + 1, n - 1) == 0);
}

/* A node of the table is 13 kB with a few words in it: by lines of 64 bytes a thirtieth is sent of
 * what its pages hold, and the receiver touches half as many pages. */
static void collect(void *argument, const char *at, size_t n, bool is_resident)
{
    if (!is_resident)
        return;
    for (size_t i = 0, j; i < n; i = j) {
        bool zero = is_zero(at + i, n - i < LINE ? n - i : LINE);
        for (j = i + LINE; j < n && is_zero(at + j, n - j < LINE ? n - j : LINE) == zero; j += LINE)
            ;
        j = j < n ? j : n;
        if (!zero)
            add_piece(argument, at + i, j - i);
    }
}

static struct ticket put_into_outbox(const char *from, size_t n)
{
    struct written written = {.base = from};
    runs(from, n, collect, &written);
    size_t table = written.n_pieces * sizeof *written.pieces, size = table + written.n_bytes;
    char *message = malloc(size > 0 ? size : 1);
    if (message == NULL)
        give_up("noting what was written");
    if (table > 0)
        memcpy(message, written.pieces, table);
    char *end = message + table;
    for (size_t i = 0; i < written.n_pieces; i++) {
        memcpy(end, from + written.pieces[i].at, written.pieces[i].n);
        end += written.pieces[i].n;
    }
    pthread_mutex_lock(&outbox_lock);
    if (outbox < 0)
        outbox = memfd_create("stand-in messages", MFD_CLOEXEC);
    off_t at = outbox_end;
    outbox_end += (off_t)((size + PAGE - 1) / PAGE * PAGE);
    pthread_mutex_unlock(&outbox_lock);
    if (outbox < 0)
        give_up("making a file in memory");
    all_written(outbox, message, size, at);
    free(message);
    free(written.pieces);
    return (struct ticket){.magic = ticket_magic,
                           .process = (int32_t)getpid(),
                           .file = outbox,
                           .offset = (uint64_t)at,
                           .n_pieces = written.n_pieces,
                           .n_bytes = written.n_bytes};
}

static void take_from_outbox(const struct ticket *ticket, char *to, size_t n)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/fd/%d", ticket->process, ticket->file);
    int file = open(name, O_RDWR | O_CLOEXEC);
    if (file < 0)
        give_up(name);
    size_t table = ticket->n_pieces * sizeof(struct piece), size = table + ticket->n_bytes;
    char *message = malloc(size > 0 ? size : 1);
    if (message == NULL)
        give_up("reading what was written");
    all_read(file, message, size, (off_t)ticket->offset);
    memset(to, 0, n);
    const char *bytes = message + table;
    for (size_t i = 0; i < ticket->n_pieces; i++) {
        const struct piece *piece = (const struct piece *)message + i;
        if (piece->at > n || piece->n > n - piece->at || bytes + piece->n > message + size)
            give_up("a message that does not fit");
        memcpy(to + piece->at, bytes, piece->n);
        bytes += piece->n;
    }
    off_t end = (off_t)((size + PAGE - 1) / PAGE * PAGE);
    fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)ticket->offset,
              end > 0 ? end : 1);
    close(file);
    free(message);
}

typedef ssize_t (*send_function)(int, const void *, size_t, int);
typedef ssize_t (*recv_function)(int, void *, size_t, int);
typedef int (*accept_function)(int, struct sockaddr *, socklen_t *);
typedef int (*poll_function)(struct pollfd *, nfds_t, int);
typedef FILE *(*fopen_function)(const char *, const char *);

/* POSIX lets dlsym give functions; ISO C has no cast for it. */
#define NEXT(type, name) (*(type *)&(void *){dlsym(RTLD_NEXT, name)})

/* A ticket that the socket had no room for yet. */
static _Thread_local struct {
    int socket;
    const void *from;
    struct ticket ticket;
} waiting = {.socket = -1};

EXPORT ssize_t send(int socket, const void *from, size_t n, int flags)
{
    send_function next = NEXT(send_function, "send");
    if (n < BIG)
        return next(socket, from, n, flags);
    if (waiting.socket != socket || waiting.from != from) {
        waiting.ticket = put_into_outbox(from, n);
        waiting.socket = socket;
        waiting.from = from;
    }
    const char *ticket = (const char *)&waiting.ticket;
    ssize_t sent = next(socket, ticket, sizeof waiting.ticket, flags);
    if (sent < 0)
        return sent;
    for (size_t done = (size_t)sent; done < sizeof waiting.ticket; done += (size_t)sent) {
        sent = next(socket, ticket + done, sizeof waiting.ticket - done, flags & ~MSG_DONTWAIT);
        if (sent < 0)
            return sent;
    }
    waiting.socket = -1;
    return (ssize_t)n;
}

static ssize_t sleep_for_news(int socket, ssize_t result)
{
    if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        poll(&(struct pollfd){.fd = socket, .events = POLLIN}, 1, LONGEST_POLL_MS);
        errno = EAGAIN;
    }
    return result;
}

EXPORT ssize_t recv(int socket, void *to, size_t n, int flags)
{
    recv_function next = NEXT(recv_function, "recv");
    struct ticket ticket;
    if (n < BIG)
        return sleep_for_news(socket, next(socket, to, n, flags));
    ssize_t there = next(socket, &ticket, sizeof ticket, flags | MSG_PEEK);
    if (there <= 0)
        return sleep_for_news(socket, there);
    if ((size_t)there < sizeof ticket) {
        errno = EAGAIN;
        return -1;
    }
    if (ticket.magic != ticket_magic)
        return next(socket, to, n, flags);
    next(socket, &ticket, sizeof ticket, flags);
    take_from_outbox(&ticket, to, n);
    return (ssize_t)n;
}

EXPORT int accept(int socket, struct sockaddr *address, socklen_t *length)
{
    accept_function next = NEXT(accept_function, "accept");
    return (int)sleep_for_news(socket, next(socket, address, length));
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* While its threads make a communicator, the library asks each microsecond whether they are done,
 * in every process.  Who goes on waiting sleeps an eighth of what the wait took so far. */
EXPORT int usleep(useconds_t us)
{
    static _Thread_local double began, ended;
    double at = now(), asked = 1e-6 * us;
    if (at - ended > 1e-3)
        began = at; /* another wait */
    double s = (at - began) / 8;
    s = s > LONGEST_SLEEP_S ? LONGEST_SLEEP_S : s;
    s = s < asked ? asked : s;
    int result = nanosleep(
        &(struct timespec){.tv_sec = (time_t)s, .tv_nsec = (long)(1e9 * (s - (double)(time_t)s))},
        NULL);
    ended = now();
    return result;
}

/* The thread that moves data between hosts waits for kernels that never run. */
EXPORT int sched_yield(void)
{
    static _Thread_local unsigned n;
    if (++n % 64 == 0)
        return nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return (int)syscall(SYS_sched_yield);
}

/* Under both names, of which the second is a compiler's that checks the array's size. */
EXPORT int poll(struct pollfd *files, nfds_t n, int ms)
{
    return NEXT(poll_function, "poll")(files, n, ms == SERVICE_MS ? SERVICE_MS / 10 : ms);
}

EXPORT int __poll_chk(struct pollfd *files, nfds_t n, int ms, size_t size);
int __poll_chk(struct pollfd *files, nfds_t n, int ms, size_t size)
{
    (void)size;
    return poll(files, n, ms);
}

static FILE *topology_file(void)
{
    char *text = rccltune_hip_topology();
    int memory = memfd_create("simulated topology", MFD_CLOEXEC);
    if (text == NULL || memory < 0)
        give_up("making a file in memory");
    all_written(memory, text, strlen(text), 0);
    free(text);
    return fdopen(memory, "r");
}

EXPORT FILE *fopen(const char *restrict path, const char *restrict mode)
{
    if (strcmp(path, HIP_TOPOLOGY_FILE) == 0)
        return topology_file();
    return NEXT(fopen_function, "fopen")(path, mode);
}
