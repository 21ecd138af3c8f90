/* A stand-in for the HIP runtime: three functions whose answers the environment gives. */
#include <stdio.h>
#include <stdlib.h>

int hipGetDevice(int *device);
int hipDeviceGetPCIBusId(char *bus_id, int size, int device);
int hipDeviceGetAttribute(int *value, int attribute, int device);

int hipGetDevice(int *device)
{
    *device = 3;
    return getenv("FAKE_HIP_NO_DEVICE") != NULL ? 100 : 0;
}

int hipDeviceGetPCIBusId(char *bus_id, int size, int device)
{
    const char *answer = getenv(FAKE_HIP_VARIABLE);
    (void)snprintf(bus_id, (size_t)size, "%s", answer == NULL ? "0000:05:00.0" : answer);
    return device == 3 ? 0 : 1;
}

int hipDeviceGetAttribute(int *value, int attribute, int device)
{
    const char *answer = getenv("FAKE_HIP_CUS");
    *value = answer == NULL ? 0 : atoi(answer);
    return attribute == 63 && device == 3 ? 0 : 1;
}
