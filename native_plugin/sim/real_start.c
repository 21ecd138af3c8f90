/* How a program comes to run over the real library: under its loader, and with its functions found.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "real.h"
#include "real_api.h"

struct real_rccl real_rccl;
struct real_hip real_hip;

bool real_is_wanted(void)
{
    const char *file = getenv(REAL_LIBRARY_VARIABLE);
    return file != NULL && *file != '\0';
}

static void folder_of(const char *file, char *folder, size_t size)
{
    const char *slash = strrchr(file, '/');
    int length = slash != NULL ? (int)(slash - file) : 0;
    if (length == 0 || (size_t)length >= size)
        sim_fail("%s is no absolute path", file);
    snprintf(folder, size, "%.*s", length, file);
}

void real_restart(char **argv)
{
    char self[PATH_MAX], folder[PATH_MAX], beside[PATH_MAX], path[2 * PATH_MAX],
        loader[PATH_MAX + 32], preload[PATH_MAX + 32];
    if (!real_is_wanted() || getenv(REAL_FOLDER_VARIABLE) != NULL)
        return;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        sim_fail("cannot read /proc/self/exe: %s", strerror(errno));
    self[length] = '\0';
    folder_of(self, beside, sizeof beside); /* …/_native/sim, or …/_native */
    folder_of(beside, folder, sizeof folder);
    strncat(folder, "/hip", sizeof folder - strlen(folder) - 1);
    folder_of(getenv(REAL_LIBRARY_VARIABLE), beside, sizeof beside);
    snprintf(path, sizeof path, "%s:%s", folder, beside);
    snprintf(preload, sizeof preload, "%s/zero_pages.so", folder);
    snprintf(loader, sizeof loader, "%s/ld-linux-x86-64.so.2", beside);
    const char *interpreter = access(loader, X_OK) == 0 ? loader : "/lib64/ld-linux-x86-64.so.2";
    if (access(preload, R_OK) != 0)
        sim_fail("the stand-in HIP runtime is not built (%s)", preload);
    size_t n = 0;
    while (argv[n] != NULL)
        n++;
    char **again = calloc(n + 8, sizeof *again);
    if (again == NULL || setenv(REAL_FOLDER_VARIABLE, folder, 1) != 0)
        sim_fail("no memory to start again");
    char *const start[] = {(char *)(uintptr_t)interpreter, "--library-path", path, "--preload",
                           /* Looked for in that path: a blank would end a longer name. */
                           "zero_pages.so", self};
    memcpy(again, start, sizeof start);
    memcpy(again + sizeof start / sizeof *start, argv + 1, n * sizeof *argv);
    execv(interpreter, again);
    sim_fail("cannot start %s: %s", interpreter, strerror(errno));
}

static void *look_up(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL)
        sim_fail("%s: %s", getenv(REAL_LIBRARY_VARIABLE), dlerror());
    return found;
}

/* POSIX lets dlsym give functions; ISO C has no cast for it. */
#define FIND(table, library, member, name)                                                         \
    memcpy(&(table).member, &(void *){look_up(library, #name)}, sizeof(void *));
#define FIND_RCCL(result, member, name, arguments) FIND(real_rccl, library, member, name)
#define FIND_HIP(result, member, name, arguments)  FIND(real_hip, RTLD_DEFAULT, member, name)

void real_load(void)
{
    const char *file = getenv(REAL_LIBRARY_VARIABLE);
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        sim_fail("the library does not load over the stand-in HIP runtime: %s", dlerror());
    REAL_RCCL(FIND_RCCL)
    REAL_HIP(FIND_HIP)
}
