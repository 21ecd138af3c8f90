#ifndef RCCLTUNE_SIM_VISIBLE_H
#define RCCLTUNE_SIM_VISIBLE_H

/* Which of n devices this process sees, in its order: what ROCR_VISIBLE_DEVICES leaves of them,
 * then HIP_ or CUDA_VISIBLE_DEVICES of that.  Returns how many. */
int visible_devices(int n, int *visible);

#endif
