#include "beside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static bool is_asked(const struct node *node)
{
    for (int i = 0; i < node->n_variants; i++) {
        const struct variant *v = &node->variants[i];
        for (int j = 0; j < v->n_conditions; j++) {
            if (v->conditions[j].kind == WHEN_BESIDE)
                return true;
        }
    }
    return false;
}

static int open_lock(const char *node_path, int collective)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s.%s.running", node_path, collective_names[collective]) >=
        (int)sizeof path)
        sim_fail("the path %s is too long", node_path);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
        sim_fail("cannot open %s: %s", path, strerror(errno));
    return file;
}

uint32_t running_beside(const struct node *node, const char *node_path)
{
    uint32_t found = 0;
    if (!is_asked(node))
        return 0;
    for (int i = 0; i < N_COLLECTIVES; i++) {
        int file = open_lock(node_path, i);
        if (flock(file, LOCK_EX | LOCK_NB) != 0)
            found |= UINT32_C(1) << i;
        close(file);
    }
    return found;
}

void tell_running(const struct node *node, const char *node_path, int collective)
{
    /* Left open: the kernel drops the lock when the process is gone, killed or not. */
    if (is_asked(node) && flock(open_lock(node_path, collective), LOCK_SH) != 0)
        sim_fail("cannot lock a file beside %s: %s", node_path, strerror(errno));
}
