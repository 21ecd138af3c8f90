/* rccltune-probe SYSROOT [BUS-ID [CUS]]: what the plugin's detector says, one KEY=VALUE a line. For
 * tests only, never installed: the Python detection is compared with it on every made-up machine.
 */
#include "partition.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    static const char *const status[] = {
        [MACHINE_KNOWN] = "known", [MACHINE_NO_AMD_GPU] = "none", [MACHINE_UNKNOWN] = "unknown"};
    struct sysroot root;
    struct machine machine;
    char mode[MODE_TEXT_SIZE];
    if (argc < 2 || sysroot_open(argv[1], &root) != READ_OK) {
        (void)fprintf(stderr, "usage: rccltune-probe SYSROOT [BUS-ID [CUS]]\n");
        return EXIT_FAILURE;
    }
    machine_detect(&root, argc > 2 ? argv[2] : NULL,
                   argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0, &machine);
    sysroot_close(&root);
    (void)printf(
        "status=%s\nreason=%s\narch=%s\ndevice=0x%x\ncus=%u\nmode=%s\nmixed=%d\nvisible=%u\n"
        "hidden=%u\nsockets=%u\non_socket=%u\nproduct=%s\n",
        status[machine.status], machine.reason, machine.arch, (unsigned)machine.device,
        (unsigned)machine.n_cus, mode_text(machine.mode, mode), machine.mixed,
        (unsigned)machine.n_visible, (unsigned)machine.n_hidden, (unsigned)machine.n_sockets,
        (unsigned)machine.n_on_socket, machine.product);
    return EXIT_SUCCESS;
}
