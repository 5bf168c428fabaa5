// Left out where MPI is not there.
#include "trireme/bench/comm_mpi.h"

#include <mpi.h>

#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

void check_peer(int code, const char* call) {
  if (code != MPI_SUCCESS)
    throw Error(text(
        "[bench] expected ",
        call,
        " to work, got error ",
        code,
        "; look at what mpirun says"));
}

}  // namespace

void mpi_all_reduce(std::span<float> values) {
  check_peer(
      MPI_Allreduce(
          MPI_IN_PLACE,
          values.data(),
          static_cast<int>(values.size()),
          MPI_FLOAT,
          MPI_SUM,
          MPI_COMM_WORLD),
      "MPI_Allreduce");
}

void mpi_barrier() {
  check_peer(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
}

}  // namespace trireme::bench
