// The backend "mpi": ranks that mpirun (or srun) has started, on one host or many.
#pragma once
#include <memory>

#include "trireme/comm/backend.h"

namespace trireme::comm {

/// Whether this build can do more with MPI than say that it is missing.
bool has_mpi();

/// Joins the world of MPI and meets its other ranks. NotSupported in a build without
/// MPI; InvalidArgument if MPI sees another world than the launcher's variables, as it
/// does in a program that was started without mpirun.
///
/// MPI is started here unless the program has done so, and then ended when the process
/// exits. It knows no way back: a rank that fails, and a collective that does not end
/// in time, end the whole job (MPI_Abort), after a message on stderr.
std::shared_ptr<Engine> start_mpi(const BackendContext& context);

}  // namespace trireme::comm
