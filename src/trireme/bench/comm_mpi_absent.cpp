// What a build without MPI has instead of its collectives.
#include "trireme/bench/comm_mpi.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

[[noreturn]] void refuse() {
  throw NotSupported(
      "[bench] expected a build with MPI, got one without; install libopenmpi-dev and "
      "openmpi-bin and build again");
}

}  // namespace

void mpi_all_reduce(std::span<float>) {
  refuse();
}

void mpi_barrier() {
  refuse();
}

}  // namespace trireme::bench
