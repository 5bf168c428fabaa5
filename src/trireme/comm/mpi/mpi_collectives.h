// Collectives over MPI. Results are bit for bit those of the other backends: MPI's own
// reductions promise no order of summation, so the ranks' values are brought together
// and summed by our kernels, in rank order.
#pragma once
#include "trireme/comm/collective.h"
#include "trireme/comm/mpi/mpi_group.h"

namespace trireme::comm {

/// all_reduce, reduce and reduce_scatter. The caller has called group.begin().
void run_mpi_reduction(MpiGroup& group, const Collective& call);

/// Everything that only moves bytes.
void run_mpi_move(MpiGroup& group, const Collective& call);

}  // namespace trireme::comm
