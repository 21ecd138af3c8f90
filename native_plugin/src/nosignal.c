#define _DEFAULT_SOURCE /* syscall() */

#include "nosignal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { N_PAUSES = 50, PAUSE_MS = 10 };

/* By the system call: the function has another name in glibc before 2.33.  The kernel's structure
 * and glibc's are the same on all 64-bit machines. */
bool is_regular_file(int fd)
{
    struct stat found;
    return syscall(SYS_fstat, fd, &found) == 0 && S_ISREG(found.st_mode);
}

/* One write, with the signals that it may raise kept from this thread and taken back.  Those that
 * were waiting before are the job's.  sigprocmask is the thread's own mask on Linux; glibc before
 * 2.32 has pthread_sigmask in another library. */
static ssize_t write_once(int fd, const char *at, size_t size)
{
    sigset_t raised;
    sigset_t mask;
    sigset_t waiting;
    const struct timespec now = {0, 0};
    (void)sigemptyset(&raised);
    (void)sigaddset(&raised, SIGPIPE);
    (void)sigaddset(&raised, SIGXFSZ);
    (void)sigprocmask(SIG_BLOCK, &raised, &mask);
    (void)sigpending(&waiting);
    ssize_t written = write(fd, at, size);
    int error = errno;
    if (sigismember(&waiting, SIGPIPE) == 1) {
        (void)sigdelset(&raised, SIGPIPE);
    }
    if (sigismember(&waiting, SIGXFSZ) == 1) {
        (void)sigdelset(&raised, SIGXFSZ);
    }
    (void)sigtimedwait(&raised, NULL, &now);
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
    errno = error;
    return written;
}

static void advance(struct text *text, ssize_t count)
{
    text->at += count > 0 ? count : 0;
    text->left -= count > 0 ? (size_t)count : 0;
}

bool nosignal_write(int fd, struct text content)
{
    while (content.left > 0) {
        ssize_t written = write_once(fd, content.at, content.left);
        if (written < 0 && errno != EINTR) {
            return false;
        }
        advance(&content, written);
    }
    return true;
}

static bool can_take(int milliseconds)
{
    struct pollfd descriptor = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&descriptor, 1, milliseconds) > 0;
}

/* What cannot be opened again: a socket, a pipe of another user, stderr where there is no /proc. */
static ssize_t tell_as_it_is(const char *at, size_t size)
{
    ssize_t sent = send(STDERR_FILENO, at, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0 || errno != ENOTSOCK) {
        return sent;
    }
    if (!can_take(0)) {
        errno = EAGAIN;
        return -1;
    }
    return write_once(STDERR_FILENO, at, size < PIPE_BUF ? size : PIPE_BUF);
}

/* `again` is stderr opened again so that it does not wait, or -1. */
static bool tell_all(int again, struct text content)
{
    static atomic_bool gave_up;
    for (int n_pauses = 0; content.left > 0;) {
        ssize_t told = again >= 0 ? write_once(again, content.at, content.left)
                                  : tell_as_it_is(content.at, content.left);
        if (told < 0 && errno == EAGAIN) {
            if (n_pauses++ >= N_PAUSES || atomic_load(&gave_up)) {
                atomic_store(&gave_up, true);
                return false;
            }
            (void)can_take(PAUSE_MS);
        } else if (told < 0 && errno != EINTR) {
            return false;
        }
        advance(&content, told);
    }
    return true;
}

bool nosignal_stderr(struct text content)
{
    if (is_regular_file(STDERR_FILENO)) {
        return nosignal_write(STDERR_FILENO, content);
    }
    int again = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool told = tell_all(again, content);
    if (again >= 0) {
        (void)close(again);
    }
    return told;
}
