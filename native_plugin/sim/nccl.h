/*
 * The stand-in library's face: NCCL's C interface, as far as a program that measures and checks
 * collectives calls it.  Below it the choice is made (rccl.h) and the machine (../hip/machine.h)
 * says how long it takes.
 */
#ifndef RCCLTUNE_SIM_NCCL_H
#define RCCLTUNE_SIM_NCCL_H

#include "../hip/machine.h"
#include "rccl.h"

/* Put the lines of NCCL's configuration files, NAME=VALUE, into the environment where it has no
 * such variable: NCCL_CONF_FILE or ~/.nccl.conf, then /etc/nccl.conf (NCCL src/misc/param.cc). */
void conf_read(void);

/* Whether calls move data, and replays of captured ones (rccltune_simulated_moves_v1). */
extern bool moves_data;

struct unique_id {
    char bytes[128];
};

/* Factor of a PreMulSum, as a type of either kind has it. */
struct factor {
    double real;
    int64_t whole;
};

/* One rank of a communicator. */
struct ncclComm {
    struct comm comm;
    struct fabric *fabric;
    int rank;
    int *peers;           /* files of the ranks' memory, opened when data is first moved */
    struct call prepared; /* that comm's table is of */
    bool has_prepared;
    struct premul { /* operations made by ncclRedOpCreatePreMulSum, behind the library's own */
        bool is_made;
        struct factor factor;
    } * premuls;
    int n_premuls;
};

/* Call as a program hands it over. */
struct request {
    struct ncclComm *comm;
    int collective, dtype, op, root;
    const void *send;
    void *receive;
    size_t count;
    void *stream;
};
enum { OP_FIRST_MADE = OP_AVG + 1 }; /* behind the library's own */

#endif
