#include "sysroot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static enum read_status status_of_errno(void)
{
    switch (errno) {
    case ENOENT:
    case ENOTDIR:
        return READ_MISSING;
    case EPERM:
    case EACCES:
        return READ_DENIED;
    default:
        return READ_FAILED;
    }
}

enum read_status sysroot_open(const char *path, struct sysroot *root)
{
    root->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return root->fd >= 0 ? READ_OK : status_of_errno();
}

void sysroot_close(struct sysroot *root)
{
    (void)close(root->fd);
    root->fd = -1;
}

enum read_status sysroot_read(const struct sysroot *root, const char *path, char *buffer,
                              size_t size, struct text *content)
{
    size_t used = 0;
    ssize_t got = 1;
    /* O_NONBLOCK: a captured tree may hold a pipe by mistake, and init must not wait for it. */
    int fd = openat(root->fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return status_of_errno();
    }
    while (used < size && (got = read(fd, buffer + used, size - used)) != 0) {
        if (got > 0) {
            used += (size_t)got;
        } else if (errno != EINTR) {
            break;
        }
    }
    enum read_status status = got < 0 ? status_of_errno() : got == 0 ? READ_OK : READ_FAILED;
    (void)close(fd);
    *content = (struct text){buffer, status == READ_OK ? used : 0};
    return status;
}

enum read_status sysroot_list(const struct sysroot *root, const char *path,
                              bool (*visit)(void *argument, const char *name), void *argument)
{
    int fd = openat(root->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return status_of_errno();
    }
    DIR *directory = fdopendir(fd);
    if (directory == NULL) {
        (void)close(fd);
        return READ_FAILED;
    }
    const struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] != '.' && !visit(argument, entry->d_name)) {
            break;
        }
    }
    (void)closedir(directory);
    return READ_OK;
}
