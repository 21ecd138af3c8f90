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

enum { GRACE_MS = 500 };

static volatile sig_atomic_t told; /* the signal that ends us */

static void hear(int number)
{
    told = number;
}

static void end_all(const pid_t *ranks, int n, int number)
{
    for (int i = 0; i < n; i++) {
        if (ranks[i] > 0)
            kill(ranks[i], number);
    }
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* What a rank ended with; one ended by a signal as a shell has it. */
static int code_of(int status, int rank)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    fprintf(stderr, "rccltune-perf: rank %d: ended by signal %d\n", rank, WTERMSIG(status));
    return 128 + WTERMSIG(status);
}

/* Waits for one rank that has ended, at most so long; its number, or -1. */
static int wait_one(pid_t *ranks, int n, int *status, double until_ms)
{
    static const struct timespec pause = {.tv_nsec = 2000000};
    for (;;) {
        pid_t pid = waitpid(-1, status, until_ms > 0 ? WNOHANG : 0);
        for (int i = 0; i < n && pid > 0; i++) {
            if (ranks[i] == pid) {
                ranks[i] = 0;
                return i;
            }
        }
        if (pid < 0 && errno != EINTR)
            return -1;
        if (told != 0 || (until_ms > 0 && now_ms() > until_ms))
            return -1;
        if (pid == 0)
            nanosleep(&pause, NULL);
    }
}

/* The first failure that is a rank's own: one that only noticed that another is gone says less. */
static int outcome(pid_t *ranks, int n)
{
    int left = n, code = EXIT_DONE, status = 0;
    double until = 0;
    while (left > 0) {
        int rank = wait_one(ranks, n, &status, until);
        if (rank < 0)
            break;
        int own = code_of(status, rank);
        left--;
        if (own != EXIT_DONE && (code == EXIT_DONE || code == EXIT_PEER))
            code = own;
        if (code != EXIT_DONE && until == 0)
            until = now_ms() + GRACE_MS;
    }
    return code;
}

int start_ranks(int n)
{
    pid_t own = getpid(), *ranks = calloc((size_t)n, sizeof *ranks);
    struct sigaction action = {.sa_handler = hear};
    if (ranks == NULL)
        fail(EXIT_USAGE, "no memory for %d ranks", n);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    for (int i = 0; i < n; i++) {
        ranks[i] = fork();
        if (ranks[i] == 0) {
            signal(SIGTERM, SIG_DFL);
            signal(SIGINT, SIG_DFL);
            signal(SIGHUP, SIG_DFL);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != own) /* gone between the fork and the line above */
                _exit(EXIT_PEER);
            free(ranks);
            return i;
        }
        if (ranks[i] < 0) {
            end_all(ranks, i, SIGKILL);
            fail(EXIT_USAGE, "cannot start rank %d of %d", i, n);
        }
    }
    int code = outcome(ranks, n);
    if (told != 0)
        code = 128 + told;
    end_all(ranks, n, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    _exit(code);
}
