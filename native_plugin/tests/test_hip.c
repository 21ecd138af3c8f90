/* A HIP runtime is found only if it is loaded, by either kind of hash table, and never guessed. */
#include "check.h"
#include "hip.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
    struct hip_device device;
    CHECK(argc == 4);
    CHECK(hip_current_device(&device) == HIP_NOT_LOADED && device.bus_id[0] == '\0');
    /* An object with the right name and none of the functions is no runtime. */
    void *empty = dlopen(argv[3], RTLD_NOW);
    CHECK(empty != NULL && hip_current_device(&device) == HIP_FAILED);
    CHECK(dlclose(empty) == 0);
    for (int i = 1; i < 3; i++) {
        void *runtime = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        CHECK(runtime != NULL);
        (void)unsetenv("FAKE_HIP_CUS");
        CHECK(hip_current_device(&device) == HIP_OK && device.n_cus == 0);
        (void)setenv("FAKE_HIP_CUS", "38", 1);
        CHECK(hip_current_device(&device) == HIP_OK && device.n_cus == 38);
        CHECK_STRING(device.bus_id, "0000:05:00.0");
        (void)setenv("FAKE_HIP_NO_DEVICE", "1", 1);
        CHECK(hip_current_device(&device) == HIP_FAILED);
        (void)unsetenv("FAKE_HIP_NO_DEVICE");
        CHECK(dlclose(runtime) == 0);
    }
    void *first = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    void *second = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    CHECK(first != NULL && second != NULL && hip_current_device(&device) == HIP_OK);
    (void)setenv("FAKE_HIP_BUS", "0000:65:00.0", 1);
    CHECK(hip_current_device(&device) == HIP_AMBIGUOUS);
    return check_result();
}
