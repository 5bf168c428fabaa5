#include "trireme/comm/mpi/mpi_wait.h"

#include <unistd.h>

namespace trireme::comm {

PollPolicy poll_policy(int local_ranks) {
  // Not available_cores(): mpirun binds every rank to a core of its own, and those of
  // the others count too.
  PollPolicy policy;
  if (local_ranks > ::sysconf(_SC_NPROCESSORS_ONLN))
    policy.spin = std::chrono::microseconds(0);
  return policy;
}

}  // namespace trireme::comm
