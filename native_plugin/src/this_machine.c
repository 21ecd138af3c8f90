#include "this_machine.h"

#include "hip.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char load_mode_cure[] =
    "set RCCLTUNE_MODE=<compute>-nps<n> to the same value on all ranks (or none, for GPUs without "
    "partitions)";

enum config_outcome load_end(struct load *load, enum config_outcome outcome, const char *format,
                             ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(load->config->reason, sizeof load->config->reason, format, arguments);
    va_end(arguments);
    return outcome;
}

void load_detect_machine(struct load *load)
{
    struct config *config = load->config;
    struct hip_device device;
    struct sysroot root;
    if (config->detected) {
        return;
    }
    config->detected = true;
    enum hip_status hip = hip_current_device(&device);
    if (sysroot_open(load->settings->sysroot, &root) != READ_OK) {
        config->machine = (struct machine){.status = MACHINE_UNKNOWN};
        (void)snprintf(config->machine.reason, sizeof config->machine.reason,
                       "%.100s cannot be opened", load->settings->sysroot);
    } else {
        machine_detect(&root, device.bus_id, device.n_cus, &config->machine);
        sysroot_close(&root);
    }
    if (hip == HIP_AMBIGUOUS) {
        config->machine.status = MACHINE_UNKNOWN;
        (void)snprintf(config->machine.reason, sizeof config->machine.reason,
                       "two HIP runtimes are loaded and name different devices");
    }
    if (load->settings->mode_is_set) {
        config->mode = load->settings->mode;
    } else if (config->machine.status != MACHINE_UNKNOWN) {
        config->mode = config->machine.mode;
    }
}

const char *load_mode_doubt(const struct load *load)
{
    const struct machine *machine = &load->config->machine;
    if (load->settings->mode_is_set) {
        return NULL;
    }
    if (machine->status == MACHINE_UNKNOWN) {
        return machine->reason;
    }
    return machine->mixed ? "the GPUs of this node are in different partition modes" : NULL;
}

/* Which devices of a node a communicator uses is invisible to a tuner.  `node` is what files are
 * for unless they say otherwise.  `one-oam` is certain only when the process can see no second OAM
 * and the ranks of a node all fit on the one: with a cgroup per rank every rank sees a single OAM,
 * its own. */
bool load_placement_holds(struct load *load, const char *wanted)
{
    if (wanted[0] == '\0') {
        return true;
    }
    if (load->settings->placement != NULL) {
        return strcmp(load->settings->placement, wanted) == 0;
    }
    if (strcmp(wanted, "one-oam") != 0) {
        return strcmp(wanted, "node") == 0;
    }
    load_detect_machine(load);
    const struct machine *machine = &load->config->machine;
    return load->n_nodes == 1 && machine->n_sockets == 1 && machine->n_hidden == 0 &&
           machine->n_visible >= load->n_ranks;
}
