/* Which jobs run beside this one: a lock on a byte of a file beside the node's for each collective.
 */
#include "beside.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "meeting.h"

/* The file beside the node's where a byte stands for each collective; -1 where no variant asks. */
static int running_file(const struct node *node, const char *node_path)
{
    char path[4096];
    bool asked = false;
    for (int i = 0; i < node->n_variants; i++) {
        for (int j = 0; j < node->variants[i].n_conditions; j++)
            asked |= node->variants[i].conditions[j].kind == WHEN_BESIDE;
    }
    snprintf(path, sizeof path, "%s.running", node_path);
    int file = asked ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (asked && file < 0)
        sim_fail("cannot open %s: %s", path, strerror(errno));
    return file;
}

/* Ranks ask at the same time, and one that locked to find out would look to the next like a job. */
uint32_t running_beside(const struct node *node, const char *node_path)
{
    int file = running_file(node, node_path);
    uint32_t found = 0;
    for (int i = 0; i < N_COLLECTIVES && file >= 0; i++)
        found |= (uint32_t)!lock_byte(file, F_OFD_GETLK, F_WRLCK, i) << i;
    if (file >= 0)
        close(file);
    return found;
}

void tell_running(const struct node *node, const char *node_path, int collective)
{
    int file = running_file(node, node_path); /* stays open, for the lock */
    if (file >= 0)
        lock_byte(file, F_OFD_SETLK, F_RDLCK, collective);
}
