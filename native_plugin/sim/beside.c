#include "beside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
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

/* Locks of the open file, which do not hinder one another's question: ranks ask at the same time,
 * and one that locked to find out would look to the next like a job. */
static struct flock whole(short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET};
}

uint32_t running_beside(const struct node *node, const char *node_path)
{
    uint32_t found = 0;
    if (!is_asked(node))
        return 0;
    for (int i = 0; i < N_COLLECTIVES; i++) {
        int file = open_lock(node_path, i);
        struct flock asked = whole(F_WRLCK);
        if (fcntl(file, F_OFD_GETLK, &asked) != 0)
            sim_fail("cannot ask for locks beside %s: %s", node_path, strerror(errno));
        if (asked.l_type != F_UNLCK)
            found |= UINT32_C(1) << i;
        close(file);
    }
    return found;
}

void tell_running(const struct node *node, const char *node_path, int collective)
{
    /* Left open: the kernel drops the lock when the process is gone, killed or not. */
    struct flock running = whole(F_RDLCK);
    if (is_asked(node) && fcntl(open_lock(node_path, collective), F_OFD_SETLK, &running) != 0)
        sim_fail("cannot lock a file beside %s: %s", node_path, strerror(errno));
}
