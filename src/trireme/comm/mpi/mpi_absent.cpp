// What the backend "mpi" says in a build without MPI.
#include "trireme/comm/mpi/mpi_backend.h"
#include "trireme/core/error.h"

namespace trireme::comm {

bool has_mpi() {
  return false;
}

std::shared_ptr<Engine> start_mpi(const BackendContext&) {
  throw NotSupported(
      "[comm] expected a build with MPI for the backend \"mpi\", got one without; "
      "install libopenmpi-dev and openmpi-bin, configure again with TRIREME_MPI=ON, "
      "and "
      "build");
}

}  // namespace trireme::comm
