#include "library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host.h"
#include "rows.h"

struct nccl nccl;
struct runtime runtime;
struct plugin plugin;

/* In the order in which they are tried where neither the user nor the library says one. */
static const char *const cuda_names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0",
                                         "libcudart.so", NULL};

static void *need(void *handle, const char *file, const char *name)
{
    void *symbol = dlsym(handle, name);
    if (symbol == NULL)
        fail(EXIT_LIBRARY, "%s has no %s: it is not a library that can be measured", file, name);
    return symbol;
}

/* Files of this kind that are mapped into the process: how many different ones, and the first. */
static int mapped(const char *stem, char *first)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[PATH_MAX + 128];
    int n = 0;
    *first = '\0';
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        char *path = strchr(line, '/'), *name = strrchr(line, '/');
        if (path == NULL || strncmp(name + 1, stem, strlen(stem)) != 0)
            continue;
        path[strcspn(path, "\n")] = '\0';
        if (n > 0 && strcmp(first, path) == 0)
            continue;
        if (n++ > 0)
            fail(EXIT_LIBRARY,
                 "two runtimes in one process, %s and %s: a device's memory belongs to one of "
                 "them. Name the library together with the runtime that it was made for",
                 first, path);
        snprintf(first, PATH_MAX, "%s", path);
    }
    if (maps != NULL)
        fclose(maps);
    return n;
}

static void *open_first(const char *const *names, const char *library)
{
    char tried[PATH_MAX] = "";
    for (; *names != NULL; names++) {
        void *handle = dlopen(*names, RTLD_NOW | RTLD_GLOBAL);
        if (handle != NULL)
            return handle;
        size_t n = strlen(tried);
        snprintf(tried + n, sizeof tried - n, "%s%s", n > 0 ? ", " : "", *names);
    }
    fail(EXIT_LIBRARY,
         "no runtime for %s: looked for %s where the system's loader looks; name it with --runtime "
         "FILE, or its folder in LD_LIBRARY_PATH",
         library, tried);
}

static void find_runtime(void *handle, const char *prefix, const char *file)
{
    char name[64];
#define FIND(result, member, symbol, arguments)                                                    \
    snprintf(name, sizeof name, "%s" #symbol, prefix);                                             \
    *(void **)(&runtime.member) = need(handle, file, name);
    RUNTIME_FUNCTIONS(FIND)
#undef FIND
    *(void **)(&runtime.clock) = dlsym(handle, "rccltune_simulated_clock_v1");
    *(void **)(&runtime.words) = dlsym(handle, "rccltune_simulated_words_v1");
}

static void find_library(void *handle, const char *file)
{
#define FIND(result, member, symbol, arguments)                                                    \
    *(void **)(&nccl.member) = need(handle, file, #symbol);
    NCCL_FUNCTIONS(FIND)
#undef FIND
#define FIND(result, member, symbol, arguments) *(void **)(&nccl.member) = dlsym(handle, #symbol);
    NCCL_PERHAPS(FIND)
#undef FIND
    *(void **)(&nccl.all_to_all) = dlsym(handle, "ncclAllToAll");
    if (nccl.all_to_all == NULL)
        *(void **)(&nccl.all_to_all) = dlsym(handle, "ncclAlltoAll");
}

/* 22809 is 2.28.9; before 2.9 it was 2804. */
static const char *version_words(int version, char words[32])
{
    int major = version < 10000 ? 1000 : 10000;
    snprintf(words, 32, "%d.%d.%d", version / major, version % major / 100, version % 100);
    return words;
}

void library_open(const char *library, const char *runtime_file)
{
    char hip[PATH_MAX], cuda[PATH_MAX];
    void *under = NULL;
    /* A runtime that is named comes first, so that the library finds it loaded. */
    if (runtime_file != NULL) {
        under = dlopen(runtime_file, RTLD_NOW | RTLD_GLOBAL);
        if (under == NULL)
            fail(EXIT_LIBRARY, "the runtime does not load: %s", dlerror());
    }
    void *handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
    if (handle == NULL)
        fail(EXIT_LIBRARY, "the library does not load: %s", dlerror());
    find_library(handle, library);
    bool brings_hip = mapped("libamdhip64.so", hip) > 0;
    bool brings_cuda = mapped("libcudart.so", cuda) > 0;
    runtime.is_hip = under != NULL ? dlsym(under, "hipSetDevice") != NULL : brings_hip;
    if (under == NULL && (brings_hip || brings_cuda))
        under = dlopen(brings_hip ? hip : cuda, RTLD_NOW | RTLD_GLOBAL);
    if (under == NULL)
        under = open_first(cuda_names, library); /* RCCL is linked to HIP, NCCL brings no runtime */
    mapped(runtime.is_hip ? "libamdhip64.so" : "libcudart.so", runtime.is_hip ? hip : cuda);
    find_runtime(under, runtime.is_hip ? "hip" : "cuda", runtime.is_hip ? hip : cuda);
    char words[32];
    int version = 0;
    check_nccl(nccl.get_version(&version), "ncclGetVersion");
    if (runtime.clock != NULL)
        rows_remark("simulated %s",
                    runtime.words != NULL ? runtime.words() : "times, by the runtime");
    rows_remark("library %s", library);
    rows_remark("version %d", version);
    tell_file("library", version_words(version, words), library);
    rows_remark("runtime %s (%s)", runtime.is_hip ? hip : cuda, runtime.is_hip ? "hip" : "cuda");
}

void plugin_open(const char *file)
{
    rows_remark("plugin %s", file != NULL ? file : "none");
    if (file == NULL)
        return;
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        fail(EXIT_LIBRARY, "the plugin does not load: %s", dlerror());
    tell_file("plugin", "", file);
    *(void **)(&plugin.answer) = need(handle, file, "rccltune_answer_v1");
    *(void **)(&plugin.asked) = need(handle, file, "rccltune_asked_v1");
    *(void **)(&plugin.questions) = need(handle, file, "rccltune_questions_v1");
    *(void **)(&plugin.cost_ns) = need(handle, file, "rccltune_cost_v1");
}

/* A number that a function of this name gives; negative where there is none or it fails. */
static int asked(const char *name)
{
    int (*get)(int *) = NULL, value = -1;
    *(void **)(&get) = dlsym(RTLD_DEFAULT, name);
    return get != NULL && get(&value) == 0 ? value : -1;
}

void device_facts(int device, struct device_facts *facts)
{
    /* hipDeviceProp_tR0600; CUDA's begins with the name, too. */
    enum { PROPERTIES_BYTES = 4096, AT_COMPUTE_UNITS = 388, AT_ARCH_NAME = 1160 };
    enum { CUDA_COMPUTE_UNITS = 16, CUDA_MAJOR = 75, CUDA_MINOR = 76 };
    static const char *const of_cuda[] = {"cudaGetDeviceProperties_v2", "cudaGetDeviceProperties"};
    static char properties[PROPERTIES_BYTES];
    int (*get)(char *, int) = NULL, (*attribute)(int *, int, int) = NULL;
    int n_cus = 0, major = 0, minor = 0;
    const char *maker = runtime.is_hip ? "hip" : "cuda";
    char name[64];
    *facts = (struct device_facts){.n_cus = ""};
    *(void **)(&get) =
        dlsym(RTLD_DEFAULT, runtime.is_hip ? "hipGetDevicePropertiesR0600" : *of_cuda);
    if (get == NULL && !runtime.is_hip)
        *(void **)(&get) = dlsym(RTLD_DEFAULT, of_cuda[1]);
    if (get != NULL && get(properties, device) == 0) {
        snprintf(facts->name, sizeof facts->name, "%.95s", properties);
        if (runtime.is_hip) {
            snprintf(facts->arch, sizeof facts->arch, "%.63s", properties + AT_ARCH_NAME);
            memcpy(&n_cus, properties + AT_COMPUTE_UNITS, sizeof n_cus);
        }
    }
    *(void **)(&attribute) = runtime.is_hip ? NULL : dlsym(RTLD_DEFAULT, "cudaDeviceGetAttribute");
    if (attribute != NULL && attribute(&n_cus, CUDA_COMPUTE_UNITS, device) == 0 &&
        attribute(&major, CUDA_MAJOR, device) == 0 && attribute(&minor, CUDA_MINOR, device) == 0)
        snprintf(facts->arch, sizeof facts->arch, "sm_%d%d", major, minor);
    if (n_cus > 0)
        snprintf(facts->n_cus, sizeof facts->n_cus, "%d", n_cus);
    snprintf(name, sizeof name, "%sRuntimeGetVersion", maker);
    int version = asked(name);
    snprintf(name, sizeof name, "%sDriverGetVersion", maker);
    if (version >= 0)
        snprintf(facts->runtime, sizeof facts->runtime, "%s %d, driver's %d", maker, version,
                 asked(name));
}

void device_use(int device)
{
    struct device_facts facts;
    check_runtime(runtime.set_device(device), "SetDevice");
    if (!runtime.is_hip)
        return;
    device_facts(device, &facts);
    const char *arch = facts.arch;
    runtime.has_fnuz = strncmp(arch, "gfx940", 6) == 0 || strncmp(arch, "gfx941", 6) == 0 ||
                       strncmp(arch, "gfx942", 6) == 0;
}

bool kernels_run(void)
{
    return runtime.clock == NULL || nccl.moves != NULL;
}

void move_data(bool wanted)
{
    if (nccl.moves != NULL)
        nccl.moves(wanted);
}

void check_nccl(int result, const char *what)
{
    if (result == 0)
        return;
    const char *last = nccl.last_error != NULL ? nccl.last_error(NULL) : NULL;
    fail(EXIT_CALL, "%s: %s%s%s", what, nccl.error_string(result),
         last != NULL && *last != '\0' ? " / " : "", last != NULL ? last : "");
}

void check_runtime(int result, const char *what)
{
    if (result != 0)
        fail(EXIT_CALL, "%s: %s (error %d)", what, runtime.error_string(result), result);
}

double now_us(void)
{
    struct timespec t;
    if (runtime.clock != NULL)
        return runtime.clock();
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}
