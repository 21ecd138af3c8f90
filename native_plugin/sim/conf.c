#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl.h"

static void read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while (file != NULL && (length = getline(&line, &room, file)) != -1) {
        if (length > 0 && line[length - 1] == '\n')
            line[length - 1] = '\0';
        char *value = strchr(line, '=');
        if (line[0] == '#' || value == NULL || value == line)
            continue;
        *value++ = '\0';
        setenv(line, value, 0);
    }
    free(line);
    if (file != NULL)
        fclose(file);
}

void conf_read(void)
{
    const char *chosen = env_text("NCCL_CONF_FILE");
    const struct passwd *user = chosen == NULL ? getpwuid(getuid()) : NULL;
    char path[PATH_MAX];
    if (chosen == NULL && user != NULL && user->pw_dir != NULL) {
        snprintf(path, sizeof path, "%s/.nccl.conf", user->pw_dir);
        chosen = path;
    }
    if (chosen != NULL)
        read_file(chosen);
    read_file("/etc/nccl.conf");
}
