/* Every machine in machines/ is detected as its `expect` lines say. */
#include "check.h"
#include "partition.h"
#include "tree.h"

#include <dirent.h>
#include <unistd.h>

static const char *field(const struct machine *machine, const char *key, char *buffer, size_t size)
{
    static const char *const status[] = {
        [MACHINE_KNOWN] = "known", [MACHINE_NO_AMD_GPU] = "none", [MACHINE_UNKNOWN] = "unknown"};
    const struct {
        const char *key;
        uint32_t value;
    } counts[] = {{"cus", machine->n_cus},         {"mixed", machine->mixed},
                  {"visible", machine->n_visible}, {"hidden", machine->n_hidden},
                  {"sockets", machine->n_sockets}, {"on_socket", machine->n_on_socket}};
    if (strcmp(key, "status") == 0) {
        return status[machine->status];
    }
    if (strcmp(key, "arch") == 0) {
        return machine->arch;
    }
    if (strcmp(key, "product") == 0) {
        return machine->product;
    }
    if (strcmp(key, "mode") == 0) {
        return mode_text(machine->mode, buffer);
    }
    (void)snprintf(buffer, size, "0x%x", (unsigned)machine->device);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        if (strcmp(key, counts[i].key) == 0) {
            (void)snprintf(buffer, size, "%u", (unsigned)counts[i].value);
        }
    }
    return buffer;
}

static void check_expectation(const char *name, const char *line, const struct sysroot *root)
{
    static const char *const keys[] = {"status",  "arch",      "device", "cus",
                                       "mode",    "mixed",     "hidden", "visible",
                                       "sockets", "on_socket", "product"};
    char bus_id[64] = "";
    char cus[64] = "0";
    char wanted[64];
    char got[64];
    struct machine machine;
    (void)tree_value(line, "hip", bus_id, sizeof bus_id);
    (void)tree_value(line, "hip_cus", cus, sizeof cus);
    machine_detect(root, bus_id, (uint32_t)strtoul(cus, NULL, 10), &machine);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (tree_value(line, keys[i], wanted, sizeof wanted) != NULL &&
            strcmp(field(&machine, keys[i], got, sizeof got), wanted) != 0) {
            (void)fprintf(stderr, "%s, hip='%s': %s is %s, not %s (%s)\n", name, bus_id, keys[i],
                          field(&machine, keys[i], got, sizeof got), wanted, machine.reason);
            check_failures++;
        }
    }
}

static void check_machine(const char *directory, const char *name)
{
    char description[512];
    char line[TREE_LINE];
    char path[256];
    struct sysroot root;
    (void)snprintf(description, sizeof description, "%s/%s", directory, name);
    tree_make(path, sizeof path);
    CHECK(tree_write(description, path));
    CHECK(sysroot_open(path, &root) == READ_OK);
    FILE *file = fopen(description, "r");
    int n = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "expect ", 7) == 0) {
            check_expectation(name, line, &root);
            n++;
        }
    }
    CHECK(n > 0);
    if (file != NULL) {
        (void)fclose(file);
    }
    sysroot_close(&root);
    tree_remove(path);
}

static void check_odd_trees(void)
{
    char path[256];
    char name[128];
    struct sysroot root;
    struct machine machine;
    tree_make(path, sizeof path);
    CHECK(sysroot_open(path, &root) == READ_OK);
    /* Names that are no addresses are passed over; an address that HIP gives but is malformed is
     * not found. */
    (void)tree_put(path, "sys/bus/pci/drivers/amdgpu/bind", "");
    (void)tree_put(path, "sys/bus/pci/drivers/amdgpu/0000:zz:00.0/device", "");
    (void)tree_put(path, "sys/bus/pci/drivers/amdgpu/0000:05:00.9/device", "");
    (void)tree_put(path, "sys/bus/pci/devices/x", "");
    machine_detect(&root, NULL, 0, &machine);
    CHECK(machine.status == MACHINE_NO_AMD_GPU);
    machine_detect(&root, "not an address", 0, &machine);
    CHECK(machine.status == MACHINE_UNKNOWN);
    /* More GPUs than there is room for is said, not cut off. */
    for (unsigned i = 0; i < 1030; i++) {
        (void)snprintf(name, sizeof name, "sys/bus/pci/drivers/amdgpu/%04x:05:00.0/device", i);
        (void)tree_put(path, name, "0x75a3\n");
    }
    machine_detect(&root, NULL, 0, &machine);
    CHECK(machine.status == MACHINE_UNKNOWN && strstr(machine.reason, "more GPUs") != NULL);
    sysroot_close(&root);
    tree_remove(path);
    CHECK(sysroot_open(path, &root) == READ_MISSING);
}

static void expect_name(const char *model, const char *wanted)
{
    char name[PRODUCT_SIZE];
    CHECK(product_name(text_of(model), name) == (wanted[0] != '\0'));
    CHECK_STRING(name, wanted);
}

/* One product has one name, however driver, runtime or hand wrote it. */
static void check_product_names(void)
{
    char longest[PRODUCT_SIZE + 1];
    expect_name("NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3");
    expect_name("\t NVIDIA  H200 \r", "NVIDIA-H200");
    expect_name("A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"); /* a driver before 470 */
    expect_name("NVIDIA-H200", "NVIDIA-H200");
    expect_name("NVIDIAN", "NVIDIA-NVIDIAN");
    expect_name("", "");
    expect_name(" \t", "");
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "NVIDIA-", 7);
    longest[PRODUCT_SIZE - 1] = '\0';
    expect_name(longest, longest);
    longest[PRODUCT_SIZE - 1] = 'x';
    longest[PRODUCT_SIZE] = '\0';
    expect_name(longest, "");
}

int main(int argc, char **argv)
{
    int n = 0;
    DIR *directory = argc > 1 ? opendir(argv[1]) : NULL;
    CHECK(directory != NULL);
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        if (strstr(entry->d_name, ".machine") != NULL) {
            check_machine(argv[1], entry->d_name);
            n++;
        }
    }
    CHECK(n >= 12);
    if (directory != NULL) {
        (void)closedir(directory);
    }
    check_odd_trees();
    check_product_names();
    return check_result();
}
