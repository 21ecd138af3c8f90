/* What the library imports and never needs here: memory by pieces (cuMem), which the devices say
 * they do not have.  Each fails, and says which it was. */
#include "hip.h"

#define UNMADE(name)                                                                               \
    EXPORT int name(void);                                                                         \
    int name(void)                                                                                 \
    {                                                                                              \
        return hip_unmade(#name);                                                                  \
    }

UNMADE(hipMemAddressFree)
UNMADE(hipMemAddressReserve)
UNMADE(hipMemCreate)
UNMADE(hipMemExportToShareableHandle)
UNMADE(hipMemGetAllocationGranularity)
UNMADE(hipMemGetAllocationPropertiesFromHandle)
UNMADE(hipMemImportFromShareableHandle)
UNMADE(hipMemMap)
UNMADE(hipMemRelease)
UNMADE(hipMemRetainAllocationHandle)
UNMADE(hipMemSetAccess)
UNMADE(hipMemUnmap)
