#include "host.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../src/partition.h"
#include "library.h"
#include "rows.h"

extern char **environ;

enum { PROCESS_DIGITS = 12, PIECE = 1 << 20, DIGEST_SIZE = 24 };

static bool says_digests;

/* The first line of a file without its end; "" where it is not there. */
static const char *line_of(const char *path, char *line, int size)
{
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(line, size, file) == NULL)
        line[0] = '\0';
    if (file != NULL)
        fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return line;
}

void check_folder(const char *folder, const char *token)
{
    char path[4096], text[8192];
    char process[PROCESS_DIGITS + 1];
    snprintf(path, sizeof path, "%s/run.json", folder);
    snprintf(process, sizeof process, "%s", token);
    FILE *file = fopen(path, "re");
    size_t n = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    text[n] = '\0';
    if (access(folder, F_OK) != 0 || (file != NULL && strstr(text, process) == NULL))
        fail(EXIT_ROWS, "the run's folder %s is not here", folder);
    if (file != NULL)
        fclose(file);
}

static uint64_t fnv(uint64_t digest, const unsigned char *bytes, size_t n)
{
    for (size_t at = 0; at < n; at += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + at, n - at < sizeof word ? n - at : sizeof word);
        digest = (digest ^ word) * 0x100000001b3; /* hosts have the lowest byte first */
    }
    return digest;
}

/* False where the file cannot be read. */
static bool digest_of(const char *path, char digest[DIGEST_SIZE])
{
    FILE *file = fopen(path, "re");
    unsigned char *piece = malloc(PIECE), size[8];
    uint64_t sum = 0xcbf29ce484222325, total = 0;
    size_t n = 0;
    if (file != NULL)
        setvbuf(file, NULL, _IONBF, 0);
    while (file != NULL && piece != NULL && (n = fread(piece, 1, PIECE, file)) > 0) {
        sum = fnv(sum, piece, n);
        total += n;
    }
    bool is_read = file != NULL && piece != NULL && !ferror(file);
    free(piece);
    if (file != NULL)
        fclose(file);
    for (size_t i = 0; i < sizeof size; i++)
        size[i] = (unsigned char)(total >> (8 * i));
    snprintf(digest, DIGEST_SIZE, "%016llx", (unsigned long long)fnv(sum, size, sizeof size));
    return is_read;
}

void tell_fact(const char *name, const char *value)
{
    if (*value != '\0')
        rows_remark("fact %s=%s", name, value);
}

void tell_host(bool of_files)
{
    char line[256], host[96] = "unknown";
    const char *host_id = getenv("NCCL_HOSTID");
    says_digests = of_files;
    (void)gethostname(host, sizeof host - 1);
    rows_remark("host %s%s%.60s", host, host_id != NULL ? "/" : "", host_id != NULL ? host_id : "");
    rows_remark("boot %s", line_of("/proc/sys/kernel/random/boot_id", line, sizeof line));
    tell_file("rank program", "", "/proc/self/exe");
    if (*line_of("/sys/module/amdgpu/version", line, sizeof line) == '\0' &&
        *line_of("/sys/module/amdgpu/srcversion", line, sizeof line) == '\0')
        (void)line_of("/sys/module/nvidia/version", line, sizeof line);
    tell_fact("driver", line);
}

void tell_file(const char *name, const char *words, const char *path)
{
    char digest[DIGEST_SIZE], text[256];
    if (!says_digests)
        return;
    snprintf(text, sizeof text, "%s%s%s", words, *words != '\0' ? " " : "",
             digest_of(path, digest) ? digest : "unreadable");
    tell_fact(name, text);
}

static void tell_machine(const char *bus)
{
    struct sysroot root;
    struct machine machine;
    char mode[MODE_TEXT_SIZE], number[16];
    if (sysroot_open("/", &root) != READ_OK)
        return;
    machine_detect(&root, bus, 0, &machine);
    if (machine.status == MACHINE_UNKNOWN)
        machine_detect(&root, NULL, 0, &machine);
    sysroot_close(&root);
    if (machine.n_visible > 0) {
        snprintf(number, sizeof number, "%u", machine.n_visible);
        tell_fact("GPUs", number);
        tell_fact("mode", mode_text(machine.mode, mode));
    }
    tell_fact("product", machine.product);
}

void tell_device(int device, const char *bus)
{
    char line[256];
    struct device_facts facts;
    device_facts(device, &facts);
    rows_remark("device %d %s", device, bus);
    tell_fact("device", facts.name);
    tell_fact("arch", facts.arch);
    tell_fact("CUs", facts.n_cus);
    tell_fact("runtime", facts.runtime);
    tell_machine(bus);
    FILE *status = fopen("/proc/self/status", "re");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "Cpus_allowed_list:", 18) == 0)
            rows_remark("processors %s", line + 18 + strspn(line + 18, " \t"));
    }
    if (status != NULL)
        fclose(status);
}

static bool begins(const char *variable, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (strncmp(variable, *names, strlen(*names)) == 0)
            return true;
    }
    return false;
}

/* rccltune compares names that begin so (measure/hosts.py); ranks know each other by a secret. */
static bool is_told(const char *variable)
{
    static const char *const told[] = {
        "NCCL_",       "RCCL_", "RCCLTUNE_", "MSCCL", "NVSHMEM_",    "TORCH_SYMM_",
        "TORCH_NCCL_", "HSA_",  "HIP_",      "ROCR_", "ROCM_",       "GPU_",
        "AMD_",        "CUDA_", "UCX_",      "FI_",   "LD_PRELOAD=", NULL};
    static const char *const secret[] = {"RCCLTUNE_PERF_", NULL};
    return begins(variable, told) && !begins(variable, secret);
}

void tell_variables(void)
{
    /* After the first time these have the values of tuning_log.c. */
    static const char *const ours[] = {
        "NCCL_DEBUG=", "NCCL_DEBUG_FILE=", "NCCL_DEBUG_SUBSYS=", NULL};
    static char **said;
    static size_t n_said;
    static bool is_again;
    size_t n_before = n_said;
    for (char **one = environ; *one != NULL; one++) {
        bool is_new = is_told(*one) && !(is_again && begins(*one, ours));
        for (size_t i = 0; i < n_before && is_new; i++)
            is_new = strcmp(said[i], *one) != 0;
        if (!is_new)
            continue;
        rows_remark("variable %s", *one);
        char **more = realloc(said, (n_said + 1) * sizeof *said);
        said = more;
        if (more == NULL || (said[n_said++] = strdup(*one)) == NULL)
            fail(EXIT_ROWS, "no memory for variables");
    }
    is_again = true;
}
