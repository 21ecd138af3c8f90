#include "start.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf.h"

/* What ranks get to end by themselves once one failed; what killed ones get to be gone: a process
 * inside a driver may not be. */
enum { GRACE_MS = 500, KILLED_MS = 10000 };

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void end_all(const pid_t *ranks, int n, int number)
{
    for (int i = 0; i < n; i++) {
        if (ranks[i] > 0)
            kill(ranks[i], number);
    }
}

/* What a rank ended with; one ended by a signal as a shell has it. */
static int code_of(int status, int rank)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    fprintf(stderr, "rccltune-perf: rank %d: ended by signal %d\n", rank, WTERMSIG(status));
    return 128 + WTERMSIG(status);
}

/* A rank that has ended, and with what; -1 where none has. */
static int ended_rank(pid_t *ranks, int n, int *status)
{
    pid_t pid;
    while ((pid = waitpid(-1, status, WNOHANG)) > 0) {
        for (int i = 0; i < n; i++) {
            if (ranks[i] == pid) {
                ranks[i] = 0;
                return i;
            }
        }
    }
    return -1;
}

/* The next signal of a set that is blocked, so that none comes between a look and the wait for it;
 * 0 where `until_ms` (of now_ms(), 0: never) came first. */
static int next_signal(const sigset_t *signals, double until_ms)
{
    for (;;) {
        long left_ms = until_ms > 0 ? (long)(until_ms - now_ms()) : 1000;
        if (left_ms <= 0)
            return 0;
        struct timespec limit = {.tv_sec = left_ms / 1000, .tv_nsec = left_ms % 1000 * 1000000};
        int number = sigtimedwait(signals, NULL, &limit);
        if (number > 0)
            return number;
    }
}

/* Waits until all ranks have ended, one has failed and the others had their time, or a signal ends
 * us.  The code of the first rank that failed by itself: one that only noticed that another is gone
 * says less. */
static int outcome(pid_t *ranks, int n, const sigset_t *signals)
{
    int left = n, code = EXIT_DONE, status = 0;
    double until = 0;
    for (;;) {
        for (int rank; (rank = ended_rank(ranks, n, &status)) >= 0;) {
            int own = code_of(status, rank);
            left--;
            if (own != EXIT_DONE && (code == EXIT_DONE || code == EXIT_PEER))
                code = own;
            if (code != EXIT_DONE && until == 0)
                until = now_ms() + GRACE_MS;
        }
        if (left == 0)
            return code;
        int number = next_signal(signals, until);
        if (number == 0)
            return code;
        if (number != SIGCHLD)
            return 128 + number;
    }
}

static void kill_all(pid_t *ranks, int n, const sigset_t *signals)
{
    int left = 0, status;
    double until = now_ms() + KILLED_MS;
    end_all(ranks, n, SIGKILL);
    for (int i = 0; i < n; i++)
        left += ranks[i] > 0;
    while (left > 0) {
        while (ended_rank(ranks, n, &status) >= 0)
            left--;
        if (left > 0 && next_signal(signals, until) == 0) {
            fprintf(stderr,
                    "rccltune-perf: %d of %d ranks are killed and not gone: they wait "
                    "inside the driver\n",
                    left, n);
            return;
        }
    }
}

int start_ranks(int n)
{
    pid_t own = getpid(), *ranks = calloc((size_t)n, sizeof *ranks);
    sigset_t signals, before;
    if (ranks == NULL)
        fail(EXIT_USAGE, "no memory for %d ranks", n);
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    signal(SIGCHLD, SIG_DFL); /* an ignored one would never come */
    sigprocmask(SIG_BLOCK, &signals, &before);
    for (int i = 0; i < n; i++) {
        ranks[i] = fork();
        if (ranks[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != own) /* gone between the fork and the line above */
                _exit(EXIT_PEER);
            sigprocmask(SIG_SETMASK, &before, NULL);
            free(ranks);
            return i;
        }
        if (ranks[i] < 0) {
            ranks[i] = 0;
            kill_all(ranks, i, &signals);
            fail(EXIT_USAGE, "cannot start rank %d of %d", i, n);
        }
    }
    int code = outcome(ranks, n, &signals);
    kill_all(ranks, n, &signals);
    _exit(code);
}
