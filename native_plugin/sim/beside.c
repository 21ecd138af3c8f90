#include "beside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_asked(const struct node *node)
{
    for (int i = 0; i < node->n_variants; i++) {
        for (int j = 0; j < node->variants[i].n_conditions; j++) {
            if (node->variants[i].conditions[j].kind == WHEN_BESIDE)
                return true;
        }
    }
    return false;
}

/* A byte of the file stands for each collective.  Locks of the open file do not hinder one
 * another's question: ranks ask at the same time, and one that locked to find out would look to the
 * next like a job. */
static short lock(const char *node_path, int command, short type, int collective, bool stays)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.running", node_path);
    struct flock wanted = {.l_type = type, .l_start = collective, .l_len = 1};
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || fcntl(file, command, &wanted) != 0)
        sim_fail("cannot lock %s: %s", path, strerror(errno));
    if (!stays)
        close(file);
    return wanted.l_type;
}

uint32_t running_beside(const struct node *node, const char *node_path)
{
    uint32_t found = 0;
    for (int i = 0; i < N_COLLECTIVES && is_asked(node); i++) {
        if (lock(node_path, F_OFD_GETLK, F_WRLCK, i, false) != F_UNLCK)
            found |= UINT32_C(1) << i;
    }
    return found;
}

void tell_running(const struct node *node, const char *node_path, int collective)
{
    /* The kernel drops the lock when the process is gone, killed or not. */
    if (is_asked(node))
        lock(node_path, F_OFD_SETLK, F_RDLCK, collective, true);
}
