/* The end of a process by a fault. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "node.h"

void crash_now(const struct fault *fault)
{
    static const int signals[N_CRASHES] = {
        [CRASH_SEGV] = SIGSEGV,
        [CRASH_ABORT] = SIGABRT,
        [CRASH_KILL] = SIGKILL,
        [CRASH_MEMORY_FAULT] = SIGABRT,
    };
    fflush(stdout);
    if (fault->crash == CRASH_EXIT)
        _exit((int)fault->number);
    if (fault->crash == CRASH_MEMORY_FAULT)
        fputs("Memory access fault by GPU node-1 (Agent handle: 0x55d0c0ffee00) on address "
              "0x7f0000000000. Reason: Page not present or supervisor privilege.\n",
              stderr);
    signal(signals[fault->crash], SIG_DFL);
    raise(signals[fault->crash]);
    _exit(70);
}
